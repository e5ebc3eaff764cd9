select attempt_id, delivery_id, event_id, destination_id, number, started_at, duration_us, outcome, http_status, detail,
  node_id, late
from attempts
where delivery_id = :delivery_id
  and account_id = :account_id
  and number is not null
order by attempt_id
limit :limit
