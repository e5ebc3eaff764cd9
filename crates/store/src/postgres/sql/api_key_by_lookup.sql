-- A key of an account that was deleted was revoked with it.
select k.doc, k.last_used_at, coalesce(k.revoked_at, a.deleted_at) as revoked_at
from api_keys k
left join accounts a on a.id = k.account_id
where k.lookup = :lookup
