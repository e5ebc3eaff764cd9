-- $1 events from here on, $2 and below this
select exists (select from queue q where q.event_id >= $1 and q.event_id < $2)
    or exists (select from expansions x where x.event_id >= $1 and x.event_id < $2)
