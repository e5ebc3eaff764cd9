-- Moves the cursor of an expansion :to where its chunk ends, if it still stands at :from, where the chunk begins.
update expanding_events
set cursor = :to,
    deliveries = deliveries + :deliveries,
    other_routes = :other_routes
where event_id = :event_id
  and cursor is :from
