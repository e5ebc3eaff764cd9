insert into api_keys (id, account_id, lookup, created_at, last_used_at, revoked_at, doc)
values (:id, :account_id, :lookup, :created_at, :last_used_at, :revoked_at, :doc)
