delete from holds
where (destination_id, since, reason) in (
    select destination_id, since, reason
    from holds
    where ended_at < :before
    limit :limit
)
