with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
),
written as (
    insert into rollups (account_id, destination_id, span, starts_at, doc)
    select r.*
    from unnest(:account_id, :destination_id, :span, :starts_at, :doc) r
    cross join me
    on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc
)
select true as written from me
