-- By compare-and-swap on the epoch. A write is guarded by a column of the row written, never by EXISTS on a row that is
-- not locked: the re-check after a lock wait does not run the sub-select again, and shards would be taken twice.
with me as materialized (
    select id
    from nodes
    where id = :node_id
    for key share
),
free as materialized (
    select s.shard, s.epoch
    from shards s
    cross join me
    where not exists (select from nodes n where n.id = s.node_id)
    order by s.wanted_by is distinct from :node_id, s.shard
    limit :limit
),
mine as materialized (
    select s.shard, f.epoch
    from free f
    join shards s on s.shard = f.shard and s.epoch = f.epoch
    order by s.shard
    for update of s skip locked
)
update shards s
set node_id = :node_id,
    epoch = s.epoch + 1,
    wanted_by = nullif(s.wanted_by, :node_id)
from mine
where s.shard = mine.shard
  and s.epoch = mine.epoch
returning s.shard, s.epoch
