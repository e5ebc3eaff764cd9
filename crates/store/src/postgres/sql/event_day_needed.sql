-- Whether something of these events waits or is yet to be made.
select exists (select from queue q where q.event_id >= :from_id and q.event_id < :below_id)
    or exists (select from expanding_events x where x.event_id >= :from_id and x.event_id < :below_id) as needed
