delete from lane_rollups
where (account_id, destination_id, span, starts_at, node_id) in (
    select account_id, destination_id, span, starts_at, node_id
    from lane_rollups
    where span = :span
      and starts_at < :before
    limit :limit
)
