-- Ids are made at the start: their order is the attempts' order.
select a.attempt_id, a.delivery_id, a.event_id, a.destination_id, a.number, a.started_at, a.duration_us, a.outcome,
       a.http_status, a.detail, a.detail_packed, a.node_id, a.late
from attempts a
where a.account_id = :account_id
  and a.delivery_id = :delivery_id
  and a.number is not null
order by a.attempt_id
limit :limit
