-- Sorted: two owners that overlap for a moment must not deadlock.
insert into lanes (destination_id, node_id, doc, updated_at)
select said.destination_id, :node_id, said.doc, :now
from unnest(:destination_id, :doc) as said (destination_id, doc)
where (select true from destinations where destinations.id = said.destination_id limit 1)   -- else it was erased
order by said.destination_id
on conflict (destination_id) do update
set node_id = excluded.node_id, doc = excluded.doc, updated_at = excluded.updated_at
where lanes.updated_at <= excluded.updated_at
