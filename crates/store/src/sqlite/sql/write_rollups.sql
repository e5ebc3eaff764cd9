insert into rollups (account_id, destination_id, span, starts_at, doc)
values (:account_id, :destination_id, :span, :starts_at, :doc)
on conflict (account_id, destination_id, span, starts_at) do update set doc = excluded.doc
