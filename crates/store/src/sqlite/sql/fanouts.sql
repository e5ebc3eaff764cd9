-- :from, :below events
-- Replays are not an event's fan-out.
select e.id, e.account_id, e.received_at, e.deliveries,
  exists (select 1 from queue q where q.event_id = e.id and q.origin = q.delivery_id),
  (select count(*) from attempts a
   where a.event_id = e.id and a.ending is not null and a.origin in (x'', a.delivery_id) and a.ending = 'delivered'),
  (select count(*) from attempts a
   where a.event_id = e.id and a.ending is not null and a.origin in (x'', a.delivery_id) and a.ending <> 'delivered'),
  (select max(a.ended_at) from attempts a
   where a.event_id = e.id and a.ending is not null and a.origin in (x'', a.delivery_id))
from events e
where e.id >= :from
  and e.id < :below
order by e.id
limit :limit
