-- As events.sql, for events whose fan-out is not complete: they are found by what waits, and by what is yet to be made,
-- one step an event, so that a long history costs nothing.
with recursive scan (id, place) as (
    select greatest(
               (select q.event_id from queue q where q.event_id < :below_event_id and q.event_id >= :from_event_id
                order by q.event_id desc limit 1),
               (select x.event_id from expanding_events x where x.event_id < :below_event_id and x.event_id >= :from_event_id
                order by x.event_id desc limit 1)
           ), 1::bigint
    union all
    select greatest(
               (select q.event_id from queue q where q.event_id < w.id and q.event_id >= :from_event_id
                order by q.event_id desc limit 1),
               (select x.event_id from expanding_events x where x.event_id < w.id and x.event_id >= :from_event_id
                order by x.event_id desc limit 1)
           ), w.place + 1
    from scan w
    where w.id is not null
      and w.place <= :look_at
),
page as (
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
           e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes, e.other_routes, e.tags, e.payload_erased_at, w.place
    from scan w
    cross join lateral (select events.* from events where events.id = w.id limit 1) e
    where w.place <= :look_at
      and e.account_id = :account_id
      and (:types::text[] is null or e.type ~ any(:types))
      and (:source_ids::uuid[] is null or e.source_id = any(:source_ids))
      and (:idempotency_keys::text[] is null or e.idempotency_key = any(:idempotency_keys))
      and (:received_since::bigint is null or e.received_at >= :received_since)
      and (:received_before::bigint is null or e.received_at < :received_before)
      and (:metadata_parts::text[] is null
           or exists (select from unnest(:metadata_parts) as part (text) where strpos(e.metadata, part.text) > 0))
      -- What waits may be a replay, which is not its fan-out.
      and (e.deliveries is null
           or exists (select from queue q where q.event_id = e.id and q.origin = q.delivery_id))
    order by w.place
    limit :limit
)
