-- ?1 node, ?2 limit
update shards
set node_id = ?1,
    epoch = epoch + 1,
    wanted_by = nullif(wanted_by, ?1)
where shard in (
    select s.shard
    from shards s
    where not exists (select 1 from nodes n where n.id = s.node_id)
      and exists (select 1 from nodes n where n.id = ?1)
    order by s.wanted_by is not ?1, s.shard
    limit ?2
)
returning shard, epoch
