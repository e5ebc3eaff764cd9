-- $1 events above this, $2 limit
select event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at
from expansions
where event_id > $1
order by event_id
limit $2
