-- :delivery_id, :attempt_id the attempt before which to look
select attempt_id, delivery_id, event_id, destination_id, number, started_at, duration_us, outcome, http_status, detail,
  node_id, late
from attempts
where destination_id = :destination_id
  and account_id = :account_id
  and number is not null
  and (delivery_id, attempt_id) < (:delivery_id, :attempt_id)
order by delivery_id desc, attempt_id desc
limit :limit
