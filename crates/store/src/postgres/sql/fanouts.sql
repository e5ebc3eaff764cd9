-- Replays are not an event's fan-out.
select e.id, e.account_id, e.received_at, e.deliveries, waiting.yes is not null as waits, ended.delivered,
       ended.not_delivered, ended.last_at
from (
    select events.id, events.account_id, events.received_at, events.deliveries
    from events
    where events.id >= :from_event_id and events.id < :below_event_id
    order by events.id
    limit :limit
) e
left join lateral (
    select true as yes from queue q where q.event_id = e.id and q.origin = q.delivery_id limit 1
) waiting on true
cross join lateral (
    select count(*) filter (where a.ending = 'delivered') as delivered,
           count(*) filter (where a.ending <> 'delivered') as not_delivered,
           max(a.ended_at) as last_at
    from attempts a
    where a.event_id = e.id
      and a.ending is not null
      and a.origin = a.delivery_id
      and a.delivery_id >= :from_delivery_id and a.delivery_id < :below_delivery_id
) ended
order by e.id
