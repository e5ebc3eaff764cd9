-- $1 chore, $2 node, $3 term, $4 deliveries from here on, $5 and below this, $6 at most so many
with me as materialized (
    select name from chores where name = $1 and node_id = $2 and term = $3 for share
),
scan as materialized (
    select distinct on (a.delivery_id) a.delivery_id, a.event_id
    from attempts a
    where a.delivery_id >= $4 and a.delivery_id < $5
    order by a.delivery_id
    limit $6 + 1
),
lost as materialized (
    select s.delivery_id
    from (select scan.* from scan order by scan.delivery_id limit $6) s
    cross join me
    left join lateral (select true as yes from events e where e.id = s.event_id limit 1) event on true
    where event.yes is null
),
gone as (
    delete from attempts a
    where a.delivery_id = any(array(select lost.delivery_id from lost))
      and a.delivery_id >= $4 and a.delivery_id < $5
    returning 1
)
select (select count(*) from gone),
       (select scan.delivery_id from scan order by scan.delivery_id offset $6 limit 1)   -- the first that was left
from me
