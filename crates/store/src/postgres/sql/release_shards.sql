-- $1 node, $2 shards, $3 their epochs. To the one who wants it, if that is there.
with mine as materialized (
    select s.shard, s.epoch, s.wanted_by
    from unnest($2, $3) as given (shard, epoch)
    join shards s on s.shard = given.shard and s.epoch = given.epoch and s.node_id = $1
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
  and s.node_id = $1
returning s.shard
