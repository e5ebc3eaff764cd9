select event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at
from expansions
where event_id = :event_id
