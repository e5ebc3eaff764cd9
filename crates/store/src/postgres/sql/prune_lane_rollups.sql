with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
),
old as materialized (
    select r.account_id, r.destination_id, r.span, r.starts_at, r.node_id
    from lane_rollups r
    cross join me
    where r.span = :span and r.starts_at < :starts_before
    limit :limit
),
gone as (
    delete from lane_rollups r using old
    where r.account_id = old.account_id and r.destination_id = old.destination_id and r.span = old.span
      and r.starts_at = old.starts_at and r.node_id = old.node_id
    returning 1
)
select (select count(*) from gone) as gone from me
