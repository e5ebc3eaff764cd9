insert into sources (id, account_id, uid, version, created_at, token_hash, doc)
values (:id, :account_id, :uid, :version, :created_at, :token_hash, :doc)
