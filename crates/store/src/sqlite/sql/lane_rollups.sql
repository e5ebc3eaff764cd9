select starts_at, doc
from lane_rollups
where account_id = :account_id
  and destination_id = :destination_id
  and span = :span
  and starts_at >= :from
  and starts_at < :to
order by starts_at, node_id
