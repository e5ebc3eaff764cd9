select i.number, i.event_id, i.body_hash
from idempotency_index x
cross join idempotency i on i.number = x.number     -- the index leads: cross keeps the order
where x.fingerprint = :fingerprint
  and i.scope = :scope
  and i.key_hash = :key_hash
