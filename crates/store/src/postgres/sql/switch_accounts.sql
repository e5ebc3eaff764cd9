-- One change per account, in the order of their ids: the accounts' rows are what changes wait for.
update accounts a
set version = a.version + 1
from (
    select locked.id
    from accounts locked
    where locked.id in (
        select d.account_id
        from destinations d
        where d.disabled_at is null
          and (d.id = any(:disable_ids) or d.id = any(:pause_ids) and d.paused_at is null and d.deleted_at is null)
    )
    order by locked.id
    for update
) l
where a.id = l.id
returning a.id, a.version
