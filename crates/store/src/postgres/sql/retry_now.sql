-- A delivery that is due keeps its place, and so does one that stands by its number.
update queue q
set due_at = least(q.due_at, :now),
    rank = case when q.due_at <= :now or (q.sequence is not null and q.track <> 0) then q.rank else :now end
where q.account_id = :account_id and q.delivery_id = :delivery_id
returning q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin,
          q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status,
          q.created_at, q.available_at, q.payload_bytes, q.sequence
