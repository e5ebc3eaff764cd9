-- Between two snapshots: of what was seen, the oldest transaction that was open, the next one and those open; of what is
-- to be seen, the next one and those open. At most :limit, and those that changed with the last of them.
with moment as materialized (
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next
)
select h.reason, h.since, h.until, h.detail, h.step, h.ended_at, h.written_by, h.changed_at,
       h.destination_id, h.account_id
from (
    select holds.*, d.account_id, moment.next - ((moment.next - holds.xmin::text::bigint) & 4294967295) as written_by
    from moment, holds
    join destinations d on d.id = holds.destination_id
    where holds.changed_at >= :changed_since
      and (holds.changed_at, holds.destination_id) > (:after_changed_at, :after_destination_id)
      and d.account_id = any(:account_ids)
) h
where h.written_by >= :seen_oldest
  and (h.written_by >= :seen_next or h.written_by = any(:seen_open))
  and h.written_by < :until_next
  and h.written_by <> all(:until_open)
order by h.changed_at, h.destination_id
fetch first :limit rows with ties
