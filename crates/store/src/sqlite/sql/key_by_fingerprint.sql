-- ?1 scope, ?2 hash of the key, ?3 fingerprint
select i.number, i.event_id, i.body_hash
from idempotency_index x
cross join idempotency i on i.number = x.number     -- the index leads: cross keeps the order
where x.fingerprint = ?3
  and i.scope = ?1
  and i.key_hash = ?2
