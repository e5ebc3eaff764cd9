-- Deliveries that have ended, in order, if the payload was erased.
select a.delivery_id
from attempts a
where a.event_id = :event_id
  and a.ending is not null
  and a.delivery_id > :after_delivery_id
  and exists (select from events e where e.id = :event_id and e.payload_erased_at is not null)
order by a.delivery_id
limit :limit
