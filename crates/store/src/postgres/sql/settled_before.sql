-- Those that were there already, and moved their delivery then.
select a.attempt_id
from unnest(:delivery_id, :attempt_id) as f (delivery_id, attempt_id)
cross join lateral (
    select attempts.attempt_id, attempts.late
    from attempts
    where attempts.delivery_id = f.delivery_id and attempts.attempt_id = f.attempt_id
    limit 1
) a
where not a.late
