-- What has ended, by the fact that ended it. Where that was no attempt (expired, cancelled), the last attempt before it
-- tells the rest; late ones moved nothing and do not count. Followed by the range of the index that is walked.
select a.delivery_id, a.account_id, a.event_id, coalesce(e.type, 'unknown') as event_type, e.source_id, a.route_id,
  a.destination_id, a.replay_id, iif(a.origin = x'', a.delivery_id, a.origin) as origin,
  coalesce(a.number, l.number, 0) as attempts, a.spent, coalesce(a.outcome, l.outcome) as last_outcome,
  case when a.number is null then l.http_status else a.http_status end as last_http_status,
  e.ordering_key, a.sequence, a.ending, a.reason, a.ended_at, r.resolved_at, r.delivered_by, r.dismissed_by, r.note
from attempts a
left join events e on e.id = a.event_id
left join settled_dead_letters r on a.ending = 'dead_letter' and r.delivery_id = a.delivery_id
left join attempts l on a.number is null
  and l.delivery_id = a.delivery_id
  and l.attempt_id = (
    select attempt_id
    from attempts
    where delivery_id = a.delivery_id
      and number is not null
      and not late
    order by number desc
    limit 1
  )
