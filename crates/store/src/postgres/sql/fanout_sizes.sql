select e.id, e.deliveries
from events e
where e.id >= :from_event_id and e.id < :below_event_id
order by e.id
limit :limit
