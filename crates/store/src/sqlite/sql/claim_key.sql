insert into idempotency (number, scope, key_hash, event_id, body_hash, created_at)
values (:number, :scope, :key_hash, :event_id, :body_hash, :now)
