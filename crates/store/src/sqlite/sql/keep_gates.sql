insert into gates (destination_id, shard, updated_at, doc)
select :destination_id, :shard, :now, :doc
where exists (select 1 from destinations where id = :destination_id)   -- nothing is kept of one that was erased
on conflict (destination_id) do update set updated_at = excluded.updated_at, doc = excluded.doc
where gates.updated_at <= excluded.updated_at
