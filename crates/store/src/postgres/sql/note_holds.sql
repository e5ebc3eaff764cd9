-- Each once and in order.
insert into holds (destination_id, since, reason, until, detail, step, ended_at, changed_at)
select h.*, coalesce(h.ended_at, h.since)
from unnest(:hold_destination_id, :hold_since, :hold_reason, :hold_until, :hold_detail, :hold_step, :hold_ended_at)
        as h (destination_id, since, reason, until, detail, step, ended_at)
where (select true from destinations where destinations.id = h.destination_id limit 1)   -- else it was erased
on conflict (destination_id, since, reason) do update
set until = excluded.until, detail = excluded.detail, step = excluded.step, ended_at = excluded.ended_at,
    changed_at = excluded.changed_at
