-- To the node that wants it, if that is there.
update shards
set node_id = (select n.id from nodes n where n.id = wanted_by),
    epoch = epoch + 1,
    wanted_by = null
where shard = :shard
  and node_id = :node_id
  and epoch = :epoch
