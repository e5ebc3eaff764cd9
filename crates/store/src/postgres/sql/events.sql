-- $1 account, $2 ids below this, $3 and not below this, $4 entries to look at, $5 rows wanted
-- $6 types as regular expressions, $7 sources, $8 idempotency keys, $9 received since, $10 received before,
-- $11 fan-out complete or not
-- An unused filter is null, known when the statement is planned, and so costs nothing.
with scan as materialized (
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.ordering_key,
           e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes,
           row_number() over (order by e.id desc) as place
    from events e
    where e.account_id = $1
      and e.id < $2 and e.id >= $3
    order by e.id desc
    limit $4 + 1
),
page as (
    select s.*
    from scan s
    where s.place <= $4
      and ($6::text[] is null or s.type ~ any($6))
      and ($7::uuid[] is null or s.source_id = any($7))
      and ($8::text[] is null or s.idempotency_key = any($8))
      and ($9::bigint is null or s.received_at >= $9)
      and ($10::bigint is null or s.received_at < $10)
      and ($11::boolean is null
           or $11 <> (s.deliveries is null
                      or exists (select from queue q where q.event_id = s.id and q.origin = q.delivery_id)))
    order by s.place
    limit $5
)
