-- ?1 destination, ?2 shard, ?3 node, ?4 now, ?5 document
insert into lanes (destination_id, shard, node_id, seen_at, doc)
values (?1, ?2, ?3, ?4, ?5)
on conflict (destination_id) do update
set shard = excluded.shard, node_id = excluded.node_id, seen_at = excluded.seen_at, doc = excluded.doc
where lanes.seen_at <= excluded.seen_at
