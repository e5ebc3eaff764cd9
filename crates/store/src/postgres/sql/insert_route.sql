insert into routes (id, account_id, uid, source_id, destination_id, overrides, version, created_at, doc)
values (:id, :account_id, :uid, :source_id, :destination_id, :overrides, :version, :created_at, :doc)
