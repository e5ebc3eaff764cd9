-- $1 chore, $2 node, $3 now, $4 until
-- Waits for whoever writes under the term there is. The row decides: of two who come at once one finds it taken.
insert into chores as c (name, node_id, term, expires_at)
values ($1, $2, 1, $4)
on conflict (name) do update
set node_id = excluded.node_id,
    term = c.term + case when c.node_id = excluded.node_id then 0 else 1 end,
    expires_at = excluded.expires_at
where c.node_id = excluded.node_id
   or c.expires_at <= $3
returning term
