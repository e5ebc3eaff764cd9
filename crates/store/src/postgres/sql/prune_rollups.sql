-- $1 chore, $2 node, $3 term, $4 span, $5 begun before, $6 at most so many
with me as materialized (
    select name from chores where name = $1 and node_id = $2 and term = $3 for share
),
old as materialized (
    select r.account_id, r.destination_id, r.span, r.starts_at
    from rollups r
    cross join me
    where r.span = $4 and r.starts_at < $5
    limit $6
),
gone as (
    delete from rollups r using old
    where r.account_id = old.account_id and r.destination_id = old.destination_id and r.span = old.span
      and r.starts_at = old.starts_at
    returning 1
)
select (select count(*) from gone) from me
