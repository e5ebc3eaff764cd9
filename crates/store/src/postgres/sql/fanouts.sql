-- $1 events from here on, $2 and below this, $3 at most so many, $4 deliveries from here on, $5 and below this
-- Replays are not an event's fan-out.
select e.id, e.account_id, e.received_at, e.deliveries, waiting.yes is not null, ended.delivered, ended.others, ended.last_at
from (
    select events.id, events.account_id, events.received_at, events.deliveries
    from events
    where events.id >= $1 and events.id < $2
    order by events.id
    limit $3
) e
left join lateral (
    select true as yes from queue q where q.event_id = e.id and q.origin = q.delivery_id limit 1
) waiting on true
cross join lateral (
    select count(*) filter (where a.ending = 'delivered') as delivered,
           count(*) filter (where a.ending <> 'delivered') as others,
           max(a.ended_at) as last_at
    from attempts a
    where a.event_id = e.id
      and a.ending is not null
      and a.origin = a.delivery_id
      and a.delivery_id >= $4 and a.delivery_id < $5
) ended
order by e.id
