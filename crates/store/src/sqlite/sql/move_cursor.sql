-- Moves the cursor of an expansion :to where its chunk ends, if it still stands at :from, where the chunk begins.
update expansions
set cursor = :to,
    deliveries = deliveries + :deliveries
where event_id = :event_id
  and cursor is :from
