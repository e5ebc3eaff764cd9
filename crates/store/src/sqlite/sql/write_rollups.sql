insert into rollups (account_id, destination_id, span, starts_at, doc)
select :account_id, :destination_id, :span, :starts_at, :doc
where not exists (select 1 from accounts where id = :account_id and deleted_at is not null)
on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc
