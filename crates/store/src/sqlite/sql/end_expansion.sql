-- The event knows the number of its deliveries from here on, and its other routes.
update events
set (deliveries, other_routes) = (select deliveries, other_routes from expanding_events where event_id = :event_id)
where id = :event_id
