insert into expanding_events (event_id, account_id, account_version, deliveries, inline_destinations, other_routes, created_at)
values (:event_id, :account_id, :account_version, :deliveries, :inline_destinations, :other_routes, :now)
