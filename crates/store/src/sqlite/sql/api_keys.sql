-- :account_id null: keys of operators and platforms
select id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at, revoked_at,
  created_at, allowed_addresses
from api_keys
where account_id is :account_id
  and id < :before
order by id desc
limit :limit
