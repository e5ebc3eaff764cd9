-- Of all nodes: under the nil one.
with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
),
written as (
    insert into lane_rollups (account_id, destination_id, span, starts_at, node_id, doc)
    select r.account_id, r.destination_id, :span, r.starts_at, '00000000-0000-0000-0000-000000000000', r.doc
    from unnest(:account_id, :destination_id, :starts_at, :doc) as r (account_id, destination_id, starts_at, doc)
    cross join me
    on conflict (account_id, destination_id, span, starts_at, node_id) do update set doc = excluded.doc
)
select true as written from me
