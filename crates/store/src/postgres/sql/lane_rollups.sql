select starts_at, doc
from lane_rollups
where account_id = :account_id
  and destination_id = :destination_id
  and span = :span
  and starts_at >= :starts_since and starts_at < :starts_before
order by starts_at, node_id
