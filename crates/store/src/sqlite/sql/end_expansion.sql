-- The event knows the number of its deliveries from here on.
update events
set deliveries = (select deliveries from expansions where event_id = :event_id)
where id = :event_id
