update shards
set wanted_by = :node_id
where shard = :shard
  and exists (select 1 from nodes n where n.id = :node_id)
  and node_id is not :node_id
  and not exists (select 1 from nodes n where n.id = wanted_by)
