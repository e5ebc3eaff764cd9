-- All dead letters of an origin. The empty origin is the delivery itself.
insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
select delivery_id, account_id, :resolved_at, :delivered_by
from attempts
where event_id = :event_id
  and ending is not null
  and ending = 'dead_letter'
  and iif(origin = x'', delivery_id, origin) = :origin
on conflict (delivery_id) do update                     -- what was dismissed was delivered after all
set resolved_at = excluded.resolved_at, delivered_by = excluded.delivered_by, dismissed_by = null, note = null
where delivered_by is null
  or (excluded.resolved_at, excluded.delivered_by) < (resolved_at, delivered_by)
