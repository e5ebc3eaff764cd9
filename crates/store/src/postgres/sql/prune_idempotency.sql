-- $1 before, $2 limit
delete from idempotency
where (scope, key_hash) in (
    select scope, key_hash
    from idempotency
    where created_at < $1
    order by created_at
    limit $2
    for update skip locked
)
returning event_id
