-- ?1 node, ?2 shard
update shards
set wanted_by = ?1
where shard = ?2
  and exists (select 1 from nodes n where n.id = ?1)
  and node_id is not ?1
  and not exists (select 1 from nodes n where n.id = wanted_by)
