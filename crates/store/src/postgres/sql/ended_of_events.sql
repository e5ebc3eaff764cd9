-- The events are locked; deliveries are looked for from :from_delivery_id on, for the days.
-- In a statement of its own: what was committed before the lock was taken is seen here. Looked up one by one.
with going as materialized (
    select g.id
    from unnest(:event_ids) g (id)
    left join lateral (select true as yes from queue q where q.event_id = g.id limit 1) waiting on true
    left join lateral (select true as yes from expanding_events x where x.event_id = g.id limit 1) expanding on true
    where waiting.yes is null
      and expanding.yes is null
)
select g.id as event_id, d.delivery_id
from (
    select going.id from going order by going.id offset 0       -- before they are joined, so that the limit ends it
) g
left join lateral (
    select a.delivery_id
    from attempts a
    where a.event_id = g.id
      and a.ending is not null
      and a.delivery_id >= :from_delivery_id
    limit :limit
) d on true
order by g.id
limit :limit
