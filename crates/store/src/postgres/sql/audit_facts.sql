-- Looked up one by one: `exists` may be turned into a read of whole tables.
with step as materialized (
    select a.delivery_id, a.attempt_id, a.account_id, a.event_id, a.ending, a.reason, a.number
    from attempts a
    where a.delivery_id >= :from_delivery_id                           -- leaves out the partitions before it
      and (a.delivery_id, a.attempt_id) >= (:from_delivery_id, :from_attempt_id)
    order by a.delivery_id, a.attempt_id
    limit :limit
)
select step.delivery_id, step.attempt_id, step.event_id, step.ending, step.reason,
       (select true from events e where e.id = step.event_id limit 1) is not null as has_event,
       step.ending is not null
           or (
               select true from queue q
               where q.account_id = step.account_id and q.delivery_id = step.delivery_id
               limit 1
           ) is not null
           or (
               select true from attempts x where x.delivery_id = step.delivery_id and x.ending is not null limit 1
           ) is not null as has_delivery,
       step.number is not null
           or (
               select true from attempts x where x.delivery_id = step.delivery_id and x.number is not null limit 1
           ) is not null as has_attempts
from step
order by step.delivery_id, step.attempt_id
