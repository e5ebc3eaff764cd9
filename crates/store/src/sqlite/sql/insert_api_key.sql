insert into api_keys (id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at,
  revoked_at, created_at, allowed_addresses)
values (:id, :account_id, :lookup, :hash, :name, :kind, :scopes, :source_id, :rate_limit, :expires_at, :last_used_at,
  :revoked_at, :created_at, :allowed_addresses)
