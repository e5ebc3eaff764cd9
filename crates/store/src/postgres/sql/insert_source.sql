insert into sources (id, account_id, uid, token_hash, version, created_at, doc)
values (:id, :account_id, :uid, :token_hash, :version, :created_at, :doc)
