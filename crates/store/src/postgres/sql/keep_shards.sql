-- $1 node, $2 shards
with mine as materialized (
    select s.shard
    from shards s
    where s.shard = any ($2)
      and s.node_id = $1
    order by s.shard
    for update of s
)
update shards s
set wanted_by = null
from mine
where s.shard = mine.shard
  and s.node_id = $1
