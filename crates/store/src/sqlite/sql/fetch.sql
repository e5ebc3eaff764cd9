-- :track, :rank, :delivery_id the position to begin at, :last_track not to go beyond
-- A range of the key: a lane's own rows, from where it wants them, and nothing else.
select delivery_id, account_id, event_id, destination_id, route_id, replay_id, origin, track, rank, due_at, attempts, spent,
  tls_errors, last_outcome, last_http_status, created_at, available_at, payload_bytes, sequence
from queue
where shard = :shard
  and destination_id = :destination_id
  and (track, rank, delivery_id) >= (:track, :rank, :delivery_id)
  and track <= :last_track
order by track, rank, delivery_id
limit :limit
