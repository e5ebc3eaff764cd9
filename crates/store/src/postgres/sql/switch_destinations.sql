-- No destination is in both lists. Accounts come with their new versions.
update destinations d
set disabled_at = case when d.id = any(:disable_ids) then :now end,
    disabled_reason = case when d.id = any(:disable_ids) then 'gone' end,
    paused_at = case when d.id = any(:pause_ids) then :now else d.paused_at end,
    version = a.version
from unnest(:account_id, :version) as a (id, version)
where d.account_id = a.id
  and d.disabled_at is null
  and (d.id = any(:disable_ids) or d.id = any(:pause_ids) and d.paused_at is null and d.deleted_at is null)
returning d.id, d.account_id
