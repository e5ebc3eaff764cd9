-- The next events of an account, oldest first: :look_at are looked at for :limit, and no more than that takes. Unused filters are
-- null, as in events.sql. In the last column the last event that was looked at, if there is one behind it.
with page as materialized (
    select s.*
    from (
        select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
               e.metadata, e.received_at, e.deliver_at, e.deliveries, e.tags, e.payload_erased_at, e.size_bytes,
               case when e.size_bytes <= :max_payload_bytes and e.sealed_headers is null then e.payload end as payload,
               e.payload_crc
        from events e
        where e.account_id = :account_id
          and e.id >= :from_event_id and e.id < :below_event_id
        order by e.id
        limit :look_at
    ) s
    where (:types::text[] is null or s.type ~ any(:types))
      and (:source_ids::uuid[] is null or s.source_id = any(:source_ids))
      and (:idempotency_keys::text[] is null or s.idempotency_key = any(:idempotency_keys))
      and (:received_since::bigint is null or s.received_at >= :received_since)
      and (:received_before::bigint is null or s.received_at < :received_before)
      and (:unmatched::boolean is null or s.deliveries = 0)
    order by s.id
    limit :limit
),
taken as materialized (
    select count(*) >= :limit as is_full, (array_agg(page.id order by page.id desc))[1] as last_id
    from page
),
ends as materialized (
    select case
               when taken.is_full then taken.last_id
               else (
                   select e.id
                   from events e
                   where e.account_id = :account_id
                     and e.id >= :from_event_id and e.id < :below_event_id
                   order by e.id
                   offset :look_at - 1
                   limit 1
               )
           end as id
    from taken
)
select page.id, page.account_id, page.source_id, page.type, page.idempotency_key, page.content_type, page.headers,
       page.ordering_key, page.metadata, page.received_at, page.deliver_at, page.deliveries is null,
       page.payload_erased_at is not null, page.tags, page.payload, page.payload_crc, page.size_bytes,
       (
           select ends.id
           from ends
           where exists (
               select from events e
               where e.account_id = :account_id
                 and e.id > (select ends.id from ends)      -- where the index is entered
                 and e.id < :below_event_id
           )
       )
from (select) always
left join page on true
order by page.id
