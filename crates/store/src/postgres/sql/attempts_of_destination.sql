select a.attempt_id, a.delivery_id, a.event_id, a.destination_id, a.number, a.started_at, a.duration_us, a.outcome,
       a.http_status, a.detail, a.detail_packed, a.node_id, a.late
from attempts a
where a.account_id = :account_id
  and a.destination_id = :destination_id
  and a.delivery_id <= :before_delivery_id                                -- for the days
  and (a.delivery_id, a.attempt_id) < (:before_delivery_id, :before_attempt_id)
  and a.number is not null
order by a.delivery_id desc, a.attempt_id desc
limit :limit
