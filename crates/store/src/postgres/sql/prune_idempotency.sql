delete from idempotency
where (scope, key_hash) in (
    select scope, key_hash
    from idempotency
    where created_at < :created_before
    order by created_at
    limit :limit
    for update skip locked
)
returning event_id
