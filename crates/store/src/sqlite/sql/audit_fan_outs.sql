-- :from the event to look from, :deliveries to look at
-- While it expands, the expansion says how many there are so far.
with next as (
  select e.id, e.account_id, coalesce(e.deliveries, x.deliveries) as promised
  from events e
  left join expanding_events x on x.event_id = e.id
  where e.id >= :from
  order by e.id
  limit :limit
),
step as (
  select id, account_id, promised,
         sum(coalesce(promised, 0)) over (order by id) as deliveries,
         row_number() over (order by id) as place
  from next
)
select id, account_id, promised,
       (select count(*) from queue q where q.event_id = step.id and q.replay_id is null)
         + (select count(*) from attempts a
            where a.event_id = step.id and a.ending is not null and a.replay_id is null)
from step
where deliveries <= :deliveries or place = 1           -- one at least, however large
order by id
