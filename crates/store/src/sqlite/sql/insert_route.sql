insert into routes (id, account_id, uid, version, created_at, source_id, destination_id, doc)
values (:id, :account_id, :uid, :version, :created_at, :source_id, :destination_id, :doc)
