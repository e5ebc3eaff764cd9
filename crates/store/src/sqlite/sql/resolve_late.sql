-- A dead letter, by the first of its chain that was delivered since it was made.
insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
select :delivery_id, account_id, ended_at, delivery_id
from attempts
where event_id = :event_id
  and ending is not null
  and ending = 'delivered'
  and origin = :origin
  and replay_id is not null
  and ended_at >= :created_at
order by ended_at, delivery_id
limit 1
on conflict (delivery_id) do nothing
