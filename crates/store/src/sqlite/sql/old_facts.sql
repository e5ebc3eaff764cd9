-- ?1 deliveries from here on, ?2 and below this, ?3 at most so many
select a.delivery_id, not exists (select 1 from events e where e.id = a.event_id)
from attempts a
where a.delivery_id >= ?1
  and a.delivery_id < ?2
group by a.delivery_id                      -- in the order of the key: nothing is sorted
order by a.delivery_id
limit ?3
