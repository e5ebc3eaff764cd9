-- $1 accounts, $2 events from here on, $3-$5 what was seen: the oldest transaction that was open, the next one, those
-- open; $6-$7 what is to be seen: the next one, those open; $8 how many. An event whose deliveries were made later was
-- written again by whoever made the last of them.
with moment as materialized (
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next
)
select e.*
from (
    select events.id, events.account_id, events.source_id, events.type, events.idempotency_key, events.content_type,
           events.headers, events.ordering_key, events.metadata, events.received_at, events.deliver_at, events.deliveries,
           events.size_bytes, moment.next - ((moment.next - events.xmin::text::bigint) & 4294967295) as written_by
    from moment, events
    where events.account_id = any($1)
      and events.id >= $2
) e
where e.written_by >= $3
  and (e.written_by >= $4 or e.written_by = any($5))
  and e.written_by < $6
  and e.written_by <> all($7)
order by e.id
limit $8
