-- Something of the event waits, or is yet to be made.
select exists (select 1 from queue where event_id = :event_id)
    or exists (select 1 from expanding_events where event_id = :event_id)
