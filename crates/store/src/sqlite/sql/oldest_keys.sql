select number, scope, key_hash, created_at
from idempotency
order by number
limit ?1
