-- Facts of all accounts behind the row :after, in the order in which they were committed: one process writes, so a row's
-- number is higher than that of every row before it. Where there was no attempt (expired, cancelled), the last one
-- before it tells the rest.
select f.rowid, f.account_id, f.late, f.delivery_id, f.event_id, coalesce(e.type, 'unknown'), e.source_id, e.ordering_key,
  f.route_id, f.destination_id, f.replay_id, iif(f.origin = x'', f.delivery_id, f.origin),
  coalesce(f.number, l.number, 0), f.spent, f.sequence, coalesce(f.outcome, l.outcome), f.http_status,
  f.attempt_id, f.started_at, f.duration_us,
  f.ending, f.reason, f.ended_at, q.due_at
from (select rowid, * from attempts where rowid > :after order by rowid limit :limit) f
left join events e on e.id = f.event_id
left join queue q on f.ending is null
  and q.account_id = f.account_id
  and q.delivery_id = f.delivery_id
  and q.attempts = f.number
left join attempts l on f.number is null
  and l.delivery_id = f.delivery_id
  and l.attempt_id = (
    select attempt_id
    from attempts
    where delivery_id = f.delivery_id
      and number is not null
      and not late
    order by number desc
    limit 1
  )
order by f.rowid
