-- Windows by columns: lanes, positions to read from, tracks not to go beyond, how many rows.
-- One range of the key per lane, however many others wait. The limit keeps it a range read: without one the planner
-- may turn the lot into a join over the whole queue.
select w.place, q.*
from unnest(:shard, :destination_id, :track, :rank, :delivery_id, :last_track, :rows) with ordinality
    as w (shard, destination_id, track, rank, delivery_id, last_track, rows, place)
cross join lateral (
    select q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin,
           q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status,
           q.created_at, q.available_at, q.payload_bytes, q.sequence
    from queue q
    where q.shard = w.shard
      and q.destination_id = w.destination_id
      and (q.track, q.rank, q.tie) >= (w.track, w.rank, w.delivery_id)
      and q.track <= w.last_track
    order by q.shard, q.destination_id, q.track, q.rank, q.tie
    limit w.rows
) q
order by w.place, q.track, q.rank, q.delivery_id
