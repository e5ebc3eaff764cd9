-- As events.sql, for events that have one of :tags: they are found by their own table, the newest of each tag first.
with scan as materialized (
    select t.id, row_number() over (order by t.id desc) as place
    from (
        select distinct tagged.event_id as id
        from unnest(:tags) as wanted (tag)
        cross join lateral (
            select event_tags.event_id
            from event_tags
            where event_tags.account_id = :account_id
              and event_tags.tag = wanted.tag
              and event_tags.event_id < :below_event_id and event_tags.event_id >= :from_event_id
            order by event_tags.event_id desc
            limit :look_at + 1
        ) tagged
        order by id desc
        limit :look_at + 1
    ) t
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
      and (:unmatched::boolean is null or e.deliveries = 0)
      and (:fanout_complete::boolean is null
           or :fanout_complete <> (e.deliveries is null
                      or exists (select from queue q where q.event_id = e.id and q.origin = q.delivery_id)))
    order by w.place
    limit :limit
)
