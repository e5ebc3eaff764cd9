update api_keys
set revoked_at = coalesce(revoked_at, :now)
where id = :id
  and account_id is :account_id
