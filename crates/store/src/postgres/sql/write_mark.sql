-- $1 chore, $2 node, $3 term, $4 mark, $5 until
with me as materialized (
    select name from chores where name = $1 and node_id = $2 and term = $3 for share
)
insert into rollup_marks (name, closed_at)
select $4, $5 from me
on conflict (name) do update set closed_at = excluded.closed_at
returning name
