-- :look_at entries are looked at for :limit rows; types are regular expressions. An unused filter is null, known when
-- the statement is planned, and so costs nothing.
with scan as materialized (
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
           e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes, e.other_routes,
           e.tags, e.payload_erased_at,
           row_number() over (order by e.id desc) as place
    from events e
    where e.account_id = :account_id
      and e.id < :below_event_id and e.id >= :from_event_id
    order by e.id desc
    limit :look_at + 1
),
page as (
    select s.*
    from scan s
    where s.place <= :look_at
      and (:types::text[] is null or s.type ~ any(:types))
      and (:source_ids::uuid[] is null or s.source_id = any(:source_ids))
      and (:idempotency_keys::text[] is null or s.idempotency_key = any(:idempotency_keys))
      and (:received_since::bigint is null or s.received_at >= :received_since)
      and (:received_before::bigint is null or s.received_at < :received_before)
      and (:metadata_parts::text[] is null
           or exists (select from unnest(:metadata_parts) as part (text) where strpos(s.metadata, part.text) > 0))
      and (:unmatched::boolean is null or s.deliveries = 0)
      and (:fanout_complete::boolean is null
           or :fanout_complete <> (s.deliveries is null
                      or exists (select from queue q where q.event_id = s.id and q.origin = q.delivery_id)))
    order by s.place
    limit :limit
)
