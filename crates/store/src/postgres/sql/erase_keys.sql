-- Of an account and of its sources. Each scope is looked up by itself.
with gone as (
    delete from idempotency
    where ctid = any(array(
        select i.ctid
        from (
            select :account_id::uuid as scope
            union all
            select s.id from sources s where s.account_id = :account_id
        ) own
        cross join lateral (
            select k.ctid from idempotency k where k.scope = own.scope limit :limit
        ) i
        limit :limit
    ))
    returning 1
)
select count(*) as gone from gone
