select event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at
from expansions
where event_id > :after_event_id
order by event_id
limit :limit
