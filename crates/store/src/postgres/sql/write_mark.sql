with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
)
insert into rollup_marks (name, closed_at)
select :mark, :closed_at from me
on conflict (name) do update set closed_at = excluded.closed_at
returning name
