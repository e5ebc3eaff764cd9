-- $1 chore, $2 node, $3 term, then by columns: $4 accounts, $5 destinations, $6 spans, $7 starts, $8 documents
with me as materialized (
    select name from chores where name = $1 and node_id = $2 and term = $3 for share
),
written as (
    insert into rollups (account_id, destination_id, span, starts_at, doc)
    select r.*
    from unnest($4, $5, $6, $7, $8) r
    cross join me
    on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc
)
select from me
