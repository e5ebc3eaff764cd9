-- $1 account, $2 destination, $3-$4 attempts below this one, $5 limit
select a.attempt_id, a.delivery_id, a.event_id, a.destination_id, a.number, a.started_at, a.duration_us, a.outcome,
       a.http_status, a.detail, a.detail_packed, a.node_id, a.late
from attempts a
where a.account_id = $1
  and a.destination_id = $2
  and a.delivery_id <= $3                                -- for the days
  and (a.delivery_id, a.attempt_id) < ($3, $4)
  and a.number is not null
order by a.delivery_id desc, a.attempt_id desc
limit $5
