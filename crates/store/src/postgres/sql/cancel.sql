-- The delete decides: whichever transaction gets the row writes the ending, an owner that settles meanwhile finds none.
with q as (
    delete from queue
    where account_id = :account_id and delivery_id = :delivery_id
    returning *
),
fact as (
    insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id, origin,
                          attempts, spent, outcome, http_status, ending, reason, ended_at, late, sequence)
    select delivery_id, :attempt_id, account_id, event_id, destination_id, route_id, replay_id, origin,
           attempts, spent, last_outcome, last_http_status, 'cancelled', 'requested', :now, false, sequence
    from q
)
select q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id, q.origin,
       q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome, q.last_http_status,
       q.created_at, q.available_at, q.payload_bytes, q.sequence
from q
