-- ?1 node, ?2 shard, ?3 epoch. To the one who wants it, if that is there.
update shards
set node_id = (select n.id from nodes n where n.id = wanted_by),
    epoch = epoch + 1,
    wanted_by = null
where shard = ?2
  and node_id = ?1
  and epoch = ?3
