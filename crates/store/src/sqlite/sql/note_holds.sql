-- :now, or later: no two changes have the same moment.
insert into holds (destination_id, since, reason, until, detail, step, ended_at, changed_at)
select :destination_id, :since, :reason, :until, :detail, :step, :ended_at,
  max(:now, (select coalesce(max(changed_at), 0) + 1 from holds))
where exists (select 1 from destinations where id = :destination_id)   -- nothing is kept of one that was erased
on conflict (destination_id, since, reason) do update
set until = excluded.until, detail = excluded.detail, step = excluded.step, ended_at = excluded.ended_at,
  changed_at = excluded.changed_at
