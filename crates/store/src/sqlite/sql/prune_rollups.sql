delete from rollups
where (account_id, destination_id, span, starts_at) in (
    select account_id, destination_id, span, starts_at
    from rollups
    where span = :span
      and starts_at < :before
    limit :limit
)
