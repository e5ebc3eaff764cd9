-- Between two snapshots: of what was seen, the oldest transaction that was open, the next one and those open; of what is
-- to be seen, the next one and those open. Without :below_attempt_id all attempts from the first on, without
-- :until_next all that is visible. The block ranges of each day's table say where the attempts of these minutes are. A
-- row's transaction is known by its last 32 bits: the rest is that of the latest it can have been.
with moment as materialized (
    select pg_current_snapshot()::text as snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next
),
fresh as materialized (
    select a.*
    from (
        select moment.next - ((moment.next - attempts.xmin::text::bigint) & 4294967295) as written_by,
               attempts.delivery_id, attempts.attempt_id, attempts.account_id, attempts.event_id,
               attempts.destination_id, attempts.route_id, attempts.replay_id, attempts.origin, attempts.number,
               attempts.attempts, attempts.spent, attempts.started_at, attempts.duration_us, attempts.outcome,
               attempts.http_status, attempts.ending, attempts.reason, attempts.ended_at, attempts.sequence
        from attempts, moment
        where attempts.attempt_id >= :from_attempt_id
          and (:below_attempt_id::uuid is null or attempts.attempt_id < :below_attempt_id)
          and attempts.account_id = any(:account_ids)
          and not attempts.late
          and attempts.answer_erased is not true              -- it was written again by that
    ) a
    where a.written_by >= :seen_oldest
      and (a.written_by >= :seen_next or a.written_by = any(:seen_open))
      and (:until_next::bigint is null or (a.written_by < :until_next and a.written_by <> all(:until_open)))
    order by a.attempt_id
    limit :limit
)
select moment.snapshot, f.written_by, f.account_id, f.delivery_id, f.attempt_id, f.event_id, f.route_id,
       f.destination_id, f.replay_id, f.origin, f.number, f.attempts, f.spent, f.outcome, f.http_status, f.started_at,
       f.duration_us, f.ending, f.reason, f.ended_at, f.sequence, coalesce(e.type, 'unknown') as event_type,
       e.source_id, e.ordering_key, q.due_at as next_attempt_at
from moment
left join fresh f on true
left join lateral (
    select events.type, events.source_id, events.ordering_key
    from events
    where events.id = f.event_id
    limit 1
) e on true
left join lateral (
    select queue.due_at
    from queue
    where queue.account_id = f.account_id
      and queue.delivery_id = f.delivery_id
      and queue.attempts = f.attempts
      and f.ending is null
    limit 1
) q on true
order by f.attempt_id
