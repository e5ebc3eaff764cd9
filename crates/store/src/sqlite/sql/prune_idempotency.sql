-- ?1 before, ?2 at most
delete from idempotency
where (scope, key_hash) in (
  select scope, key_hash
  from idempotency
  where created_at < ?1
  order by created_at                       -- oldest first; the index holds the whole key
  limit ?2
)
