-- Waiting or ended, never both and never neither in one snapshot.
select d.*, e.type as event_type, e.source_id, e.ordering_key, r.resolved_at, r.delivered_by, r.dismissed_by, r.note
from (
    select q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin,
           q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status,
           q.created_at, q.available_at, q.payload_bytes, q.sequence,
           null::text as ending, null::text as reason, null::bigint as ended_at
    from queue q
    where q.account_id = :account_id and q.delivery_id = :delivery_id
    union all
    select null, a.delivery_id, a.account_id, a.event_id, a.destination_id, a.route_id, a.replay_id, a.origin,
           null, null, null, a.attempts, a.spent, null, a.outcome, a.http_status, null, null, null, a.sequence,
           a.ending, a.reason, a.ended_at
    from attempts a
    where a.account_id = :account_id and a.delivery_id = :delivery_id and a.ending is not null
) d
left join lateral (
    select events.type, events.source_id, events.ordering_key
    from events
    where events.id = d.event_id
    limit 1
) e on true
left join settled_dead_letters r on r.delivery_id = d.delivery_id and d.ending = 'dead_letter'
