insert into gates (destination_id, shard, updated_at, doc)
values (:destination_id, :shard, :now, :doc)
on conflict (destination_id) do update set updated_at = excluded.updated_at, doc = excluded.doc
where gates.updated_at <= excluded.updated_at
