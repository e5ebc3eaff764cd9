select delivery_id, account_id, event_id, destination_id, route_id, replay_id, origin, track, rank, due_at, attempts, spent,
  tls_errors, last_outcome, last_http_status, created_at, available_at, payload_bytes, sequence
from queue
where account_id = :account_id
  and delivery_id = :delivery_id
