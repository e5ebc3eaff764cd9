with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
),
written as (
    insert into rollups (account_id, destination_id, span, starts_at, doc)
    select r.*
    from unnest(:account_id, :destination_id, :span, :starts_at, :doc) as r (account_id, destination_id, span, starts_at, doc)
    cross join me
    where (
        select true from accounts where accounts.id = r.account_id and accounts.deleted_at is not null limit 1
    ) is null
    on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc
)
select true as written from me
