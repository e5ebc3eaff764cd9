-- In a statement of its own: what was committed before the lock was taken is seen here.
select exists (select from queue q where q.event_id = :event_id)
    or exists (select from expanding_events x where x.event_id = :event_id)
    or exists (select from expansions x where x.event_id = :event_id) as in_use
