-- Large fan-outs walk destinations, so that each has one delivery whichever routes lead there. What the version before has
-- begun is in `expansions`, where the cursor is a route; it is taken over.
create table expanding_events (
    event_id blob not null primary key,
    account_id blob not null,
    -- At the commit: a route that has not changed since was there.
    account_version integer not null,
    -- The last destination that is done; moved by compare-and-swap.
    cursor blob,
    deliveries integer not null,
    -- Ordered ones, one id after the other: their deliveries were committed with the event.
    inline_destinations blob not null default x'',
    -- One id after the other; told to the event at the end.
    other_routes blob,
    created_at integer not null
) without rowid;

create index routes_walk on routes (account_id, destination_id, id) where deleted_at is null;

-- Routes that match too and deliver nothing, one id after the other; null where there are none. A null behind the payload
-- is told by the head of the row, without walking it.
alter table events add column other_routes blob;
