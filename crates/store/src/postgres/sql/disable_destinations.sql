-- $1 destinations, $2 now, $3-$4 accounts and their new versions
update destinations d
set disabled_at = $2, disabled_reason = 'gone', version = a.version
from unnest($3, $4) as a (id, version)
where d.id = any($1) and d.account_id = a.id and d.disabled_at is null
