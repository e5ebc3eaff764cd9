-- $1 destinations to disable, $2 to pause, none of them in both; $3 now, $4-$5 accounts and their new versions
update destinations d
set disabled_at = case when d.id = any($1) then $3 end,
    disabled_reason = case when d.id = any($1) then 'gone' end,
    paused_at = case when d.id = any($2) then $3 else d.paused_at end,
    version = a.version
from unnest($4, $5) as a (id, version)
where d.account_id = a.id
  and d.disabled_at is null
  and (d.id = any($1) or d.id = any($2) and d.paused_at is null and d.deleted_at is null)
