insert into idempotency (number, scope, key_hash, event_id, body_hash, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
