-- The next events of an account, oldest first: :look_at are looked at for :limit. Unused filters are null, as in events.sql.
with scan as materialized (
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
           e.metadata, e.received_at, e.deliver_at, e.deliveries, e.tags, e.payload_erased_at,
           row_number() over (order by e.id) as place
    from events e
    where e.account_id = :account_id
      and e.id >= :from_event_id and e.id < :below_event_id
    order by e.id
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
      and (:unmatched::boolean is null or s.deliveries = 0)
    order by s.place
    limit :limit
)
select page.id, page.account_id, page.source_id, page.type as event_type, page.idempotency_key, page.content_type,
       page.headers, page.ordering_key, page.metadata, page.received_at, page.deliver_at,
       page.deliveries is null as expanding, page.payload_erased_at is not null as erased, page.tags,
       (select scan.id from scan order by scan.place desc limit 1) as last_id,               -- there was
       (select scan.id from scan where scan.place = :look_at) as looked_at_id                -- the last looked at
from (select) always
left join page on true
order by page.place
