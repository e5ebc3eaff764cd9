-- A key of an account that was deleted was revoked with it.
select k.id, k.account_id, k.lookup, k.hash, k.name, k.kind, k.scopes, k.source_id, k.rate_limit, k.expires_at,
  k.last_used_at, coalesce(k.revoked_at, a.deleted_at), k.created_at, k.allowed_addresses
from api_keys k
left join accounts a on a.id = k.account_id
where k.lookup = :lookup
