/* posthaste:settle */
-- Settlements by columns, sorted by delivery.
-- Fenced twice. A node whose row is gone moves nothing: the lock lets renewals pass and makes the reaper wait. And the
-- row decides: it must be there with the attempts it had at the start, so a cancel that commits meanwhile stays, and
-- a batch that is run again finds nothing to move. Run with other joins than nested loops switched off: on a young
-- table the planner would rather read all of the queue than look up each delivery. Columns are read by their place: unnest
-- would write each of them down first.
with me as materialized (
    select id from nodes where id = :settling_node_id for key share
),
c as materialized (
    select (:delivery_id)[place] as delivery_id, (:attempt_id)[place] as attempt_id, (:account_id)[place] as account_id,
           (:event_id)[place] as event_id, (:destination_id)[place] as destination_id, (:route_id)[place] as route_id,
           (:replay_id)[place] as replay_id, (:origin)[place] as origin, (:attempts_before)[place] as attempts_before,
           (:number)[place] as number, (:attempts)[place] as attempts, (:spent)[place] as spent,
           (:started_at)[place] as started_at, (:duration_us)[place] as duration_us, (:outcome)[place] as outcome,
           (:http_status)[place] as http_status, (:detail)[place] as detail, (:node_id)[place] as node_id,
           (:ending)[place] as ending, (:reason)[place] as reason, (:ended_at)[place] as ended_at, (:track)[place] as track,
           (:rank)[place] as rank, (:due_at)[place] as due_at, (:tls_errors)[place] as tls_errors,
           (:sequence)[place] as sequence, (:detail_packed)[place] as detail_packed
    from generate_series(1, cardinality(:delivery_id)) as place
),
gone as (
    delete from queue q
    using c, me
    where q.account_id = c.account_id
      and q.delivery_id = c.delivery_id
      and q.attempts = c.attempts_before
      and c.ending is not null
    returning q.delivery_id
),
moved as (
    update queue q
    set track = c.track, rank = c.rank, due_at = c.due_at, attempts = c.attempts, spent = c.spent,
        tls_errors = c.tls_errors, last_outcome = c.outcome, last_http_status = c.http_status
    from c, me
    where q.account_id = c.account_id
      and q.delivery_id = c.delivery_id
      and q.attempts = c.attempts_before
      and c.ending is null
    returning q.delivery_id
)
-- here: settle_dead_letters
insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id, origin,
                      number, attempts, spent, started_at, duration_us, outcome, http_status, detail, node_id,
                      ending, reason, ended_at, late, sequence, detail_packed)
select c.delivery_id, c.attempt_id, c.account_id, c.event_id, c.destination_id, c.route_id, c.replay_id, c.origin,
       c.number, c.attempts, c.spent, c.started_at, c.duration_us, c.outcome, c.http_status, c.detail, c.node_id,
       case when c.gone then c.ending end, case when c.gone then c.reason end, case when c.gone then c.ended_at end,
       not (c.gone or c.moved),                                 -- a former owner's word, or overtaken by a cancel
       c.sequence, c.detail_packed
from (
    select c.*,
           c.delivery_id in (select delivery_id from gone) as gone,
           c.delivery_id in (select delivery_id from moved) as moved
    from c
    offset 0                                                    -- computed once a row
) c
where c.gone
   or c.moved
   -- Late. Nothing more is written of what was an account's, or of the answers to an event whose payload was erased.
   or (
       (select true from accounts a where a.id = c.account_id and a.deleted_at is not null limit 1) is null
       and (select true from events e where e.id = c.event_id and e.payload_erased_at is not null limit 1) is null
   )
on conflict do nothing                                          -- a batch that is run again
returning attempt_id, late
