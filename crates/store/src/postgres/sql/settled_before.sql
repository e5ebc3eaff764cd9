-- $1 deliveries, $2 attempts: facts that were there already, and whether they had moved their delivery
select a.attempt_id, a.late
from unnest($1, $2) as f (delivery_id, attempt_id)
cross join lateral (
    select attempts.attempt_id, attempts.late
    from attempts
    where attempts.delivery_id = f.delivery_id and attempts.attempt_id = f.attempt_id
    limit 1
) a
