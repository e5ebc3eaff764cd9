-- $1 account, $2 event
select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
       e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes,
       waiting.count, ended.delivered, ended.dead_letter, ended.cancelled, ended.last_at
from events e
cross join lateral (
    select count(*) as count
    from queue q
    where q.event_id = e.id and q.origin = q.delivery_id
) waiting
cross join lateral (
    select count(*) filter (where a.ending = 'delivered') as delivered,
           count(*) filter (where a.ending = 'dead_letter') as dead_letter,
           count(*) filter (where a.ending = 'cancelled') as cancelled,
           max(a.ended_at) as last_at
    from attempts a
    where a.event_id = e.id and a.ending is not null and a.origin = a.delivery_id   -- replays are not its fan-out
) ended
where e.account_id = $1 and e.id = $2
