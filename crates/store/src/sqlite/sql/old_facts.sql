-- :from, :below deliveries
select a.delivery_id, not exists (select 1 from events e where e.id = a.event_id)
from attempts a
where a.delivery_id >= :from
  and a.delivery_id < :below
group by a.delivery_id                      -- in the order of the key: nothing is sorted
order by a.delivery_id
limit :limit
