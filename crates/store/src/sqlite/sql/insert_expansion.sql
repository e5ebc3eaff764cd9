insert into expansions (event_id, account_id, account_version, deliveries, inline_routes, created_at)
values (:event_id, :account_id, :account_version, :deliveries, :inline_routes, :now)
