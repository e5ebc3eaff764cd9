-- While it expands, the expansion says how many there are so far.
with next as materialized (
    select e.id, e.account_id, e.deliveries
    from events e
    where e.id >= :from_event_id
    order by e.id
    limit :limit
),
step as materialized (
    select promised.id, promised.account_id, promised.deliveries,
           sum(coalesce(promised.deliveries, 0)) over (order by promised.id) as total,
           row_number() over (order by promised.id) as place
    from (
        select next.id, next.account_id,
               coalesce(next.deliveries, (select x.deliveries from expanding_events x where x.event_id = next.id)) as deliveries
        from next
    ) promised
)
select step.id, step.account_id, step.deliveries as promised,
       (select count(*) from queue q where q.event_id = step.id and q.replay_id is null)
           + (select count(*) from attempts a
              where a.event_id = step.id and a.ending is not null and a.replay_id is null) as found
from step
where step.total <= :max_deliveries or step.place = 1                -- one at least, however large
order by step.id
