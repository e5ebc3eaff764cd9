-- $1 accounts, $2 changed from then on, $3 $4 behind this change, $5-$7 what was seen: the oldest transaction that was
-- open, the next one, those open; $8-$9 what is to be seen: the next one, those open; $10 how many, and those that
-- changed with the last of them
with moment as materialized (
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next
)
select h.reason, h.since, h.until, h.detail, h.step, h.ended_at, h.written_by, h.changed_at, h.destination_id, h.account_id
from (
    select holds.*, d.account_id, moment.next - ((moment.next - holds.xmin::text::bigint) & 4294967295) as written_by
    from moment, holds
    join destinations d on d.id = holds.destination_id
    where holds.changed_at >= $2
      and (holds.changed_at, holds.destination_id) > ($3, $4)
      and d.account_id = any($1)
) h
where h.written_by >= $5
  and (h.written_by >= $6 or h.written_by = any($7))
  and h.written_by < $8
  and h.written_by <> all($9)
order by h.changed_at, h.destination_id
fetch first $10 rows with ties
