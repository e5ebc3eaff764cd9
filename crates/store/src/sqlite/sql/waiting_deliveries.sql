-- What waits, with what a list shows of its event. Followed by the range of the index that is walked.
select q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin, q.track, q.rank,
  q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status, q.created_at, q.available_at,
  q.payload_bytes, q.sequence, coalesce(e.type, 'unknown') as event_type, e.source_id, e.ordering_key,
  null as ending, null as reason, null as ended_at
from queue q
left join events e on e.id = q.event_id
