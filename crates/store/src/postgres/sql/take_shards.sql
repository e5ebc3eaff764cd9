-- $1 node, $2 limit
-- By compare-and-swap on the epoch. A write is guarded by a column of the row written, never by EXISTS on a row that is
-- not locked: the re-check after a lock wait does not run the sub-select again, and shards would be taken twice.
with me as materialized (
    select id
    from nodes
    where id = $1
    for key share
),
free as materialized (
    select s.shard, s.epoch
    from shards s
    cross join me
    where not exists (select from nodes n where n.id = s.node_id)
    order by s.wanted_by is distinct from $1, s.shard
    limit $2
),
mine as materialized (
    select s.shard, f.epoch
    from free f
    join shards s on s.shard = f.shard and s.epoch = f.epoch
    order by s.shard
    for update of s skip locked
)
update shards s
set node_id = $1,
    epoch = s.epoch + 1,
    wanted_by = nullif(s.wanted_by, $1)
from mine
where s.shard = mine.shard
  and s.epoch = mine.epoch
returning s.shard, s.epoch
