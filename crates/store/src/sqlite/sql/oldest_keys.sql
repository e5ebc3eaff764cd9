select created_at, scope, key_hash, number
from idempotency
order by number
limit :limit
