select number, event_id, body_hash
from idempotency
where number = :number
  and scope = :scope
  and key_hash = :key_hash
