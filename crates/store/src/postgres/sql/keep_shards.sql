with mine as materialized (
    select s.shard
    from shards s
    where s.shard = any (:shards)
      and s.node_id = :node_id
    order by s.shard
    for update of s
)
update shards s
set wanted_by = null
from mine
where s.shard = mine.shard
  and s.node_id = :node_id
