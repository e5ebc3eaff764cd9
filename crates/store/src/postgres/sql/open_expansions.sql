select event_id, account_id, account_version, cursor, deliveries, inline_destinations, other_routes, created_at
from expanding_events
where event_id > :after_event_id
order by event_id
limit :limit
