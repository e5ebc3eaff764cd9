-- The destinations that have a delivery of the event, waiting or ended.
select q.destination_id
from queue q
where q.event_id = :event_id
union
select a.destination_id
from attempts a
where a.event_id = :event_id
  and a.ending is not null
  and a.delivery_id >= :from_delivery_id
