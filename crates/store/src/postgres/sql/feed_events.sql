-- Between two snapshots: of what was seen, the oldest transaction that was open, the next one and those open; of what is
-- to be seen, the next one and those open. An event whose deliveries were made later was written again
-- by the statement that made the last of them.
with moment as materialized (
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next
)
select e.*
from (
    select events.id, events.account_id, events.source_id, events.type as event_type, events.idempotency_key,
           events.content_type, events.headers, events.ordering_key, events.metadata, events.received_at,
           events.deliver_at, events.deliveries, events.size_bytes, events.other_routes, events.tags,
           moment.next - ((moment.next - events.xmin::text::bigint) & 4294967295) as written_by
    from moment, events
    where events.account_id = any(:account_ids)
      and events.id >= :from_event_id
      and events.payload_erased_at is null                    -- it was written again by that
) e
where e.written_by >= :seen_oldest
  and (e.written_by >= :seen_next or e.written_by = any(:seen_open))
  and e.written_by < :until_next
  and e.written_by <> all(:until_open)
order by e.id
limit :limit
