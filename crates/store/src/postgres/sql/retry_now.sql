-- $1 account, $2 delivery, $3 now
-- A delivery that is due keeps its place, and so does one that has a number.
update queue q
set due_at = least(q.due_at, $3),
    rank = case when q.due_at <= $3 or q.sequence is not null then q.rank else $3 end
where q.account_id = $1 and q.delivery_id = $2
returning q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin,
          q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status,
          q.created_at, q.available_at, q.payload_bytes, q.sequence
