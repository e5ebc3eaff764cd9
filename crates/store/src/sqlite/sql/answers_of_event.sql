-- Deliveries that have ended, in order. A delivery has one ending.
select delivery_id
from attempts
where event_id = :event_id
  and ending is not null
  and delivery_id > :after
order by delivery_id
limit :limit
