-- ?1 scope, ?2 hash of the key, ?3 number
select number, event_id, body_hash
from idempotency
where number = ?3
  and scope = ?1
  and key_hash = ?2
