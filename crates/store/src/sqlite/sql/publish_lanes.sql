insert into lanes (destination_id, shard, node_id, seen_at, doc)
select :destination_id, :shard, :node_id, :now, :doc
where exists (select 1 from destinations where id = :destination_id)   -- nothing is kept of one that was erased
on conflict (destination_id) do update
set shard = excluded.shard, node_id = excluded.node_id, seen_at = excluded.seen_at, doc = excluded.doc
where lanes.seen_at <= excluded.seen_at
