update shards
set node_id = :node_id,
    epoch = epoch + 1,
    wanted_by = nullif(wanted_by, :node_id)
where shard in (
    select s.shard
    from shards s
    where not exists (select 1 from nodes n where n.id = s.node_id)
      and exists (select 1 from nodes n where n.id = :node_id)
    order by s.wanted_by is not :node_id, s.shard
    limit :limit
)
returning shard, epoch
