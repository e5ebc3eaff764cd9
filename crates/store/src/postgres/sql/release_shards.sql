-- To the node that wants it, if that is there.
with mine as materialized (
    select s.shard, s.epoch, s.wanted_by
    from unnest(:shard, :epoch) as given (shard, epoch)
    join shards s on s.shard = given.shard and s.epoch = given.epoch and s.node_id = :node_id
    order by s.shard
    for update of s
)
update shards s
set node_id = (select n.id from nodes n where n.id = mine.wanted_by),
    epoch = s.epoch + 1,
    wanted_by = null
from mine
where s.shard = mine.shard
  and s.epoch = mine.epoch
  and s.node_id = :node_id
returning s.shard
