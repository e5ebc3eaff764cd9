-- ?1 shard, ?2 destination, ?3 ?4 ?5 position (track, rank, delivery), ?6 track not to go beyond, ?7 how many
-- A range of the key: a lane's own rows, from where it wants them, and nothing else.
select delivery_id, account_id, event_id, destination_id, route_id, replay_id, origin, track, rank, due_at, attempts, spent,
  tls_errors, last_outcome, last_http_status, created_at, available_at, payload_bytes, sequence
from queue
where shard = ?1
  and destination_id = ?2
  and (track, rank, delivery_id) >= (?3, ?4, ?5)
  and track <= ?6
order by track, rank, delivery_id
limit ?7
