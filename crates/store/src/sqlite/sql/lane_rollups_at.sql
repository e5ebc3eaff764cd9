select account_id, destination_id, node_id, doc
from lane_rollups
where span = :span
  and starts_at = :starts_at
  and (account_id, destination_id, node_id) > (:account_id, :destination_id, :node_id)
order by account_id, destination_id, node_id
limit :limit
