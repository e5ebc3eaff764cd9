-- Waits for writes under the term there is. The row decides: of two nodes that come at once one finds it taken.
insert into chores as c (name, node_id, term, expires_at)
values (:chore, :node_id, 1, :expires_at)
on conflict (name) do update
set node_id = excluded.node_id,
    term = c.term + case when c.node_id = excluded.node_id then 0 else 1 end,
    expires_at = excluded.expires_at
where c.node_id = excluded.node_id
   or c.expires_at <= :now
returning term
