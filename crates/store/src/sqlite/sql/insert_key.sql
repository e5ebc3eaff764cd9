-- ?1 scope, ?2 hash of the key, ?3 event, ?4 hash of the body, ?5 now
insert into idempotency (scope, key_hash, event_id, body_hash, created_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict do nothing                      -- the first one wins, also within a batch
