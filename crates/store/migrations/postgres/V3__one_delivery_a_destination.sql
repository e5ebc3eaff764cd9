-- Large fan-outs walk destinations, so that each has one delivery whichever routes lead there. Nodes of the version before
-- have their own in `expansions`, where the cursor is a route; what they begin, the others take over.
create table expanding_events (
    event_id            uuid    primary key,
    account_id          uuid    not null,
    account_version     bigint  not null,                  -- at the commit: a route unchanged since was there
    cursor              uuid,                              -- the last destination done
    deliveries          integer not null check (deliveries >= 0),
    inline_destinations uuid[]  not null default '{}',     -- ordered ones: committed with the event
    other_routes        bytea,                             -- one id after the other; told to the event at the end
    created_at          bigint  not null
);

create index routes_to_destinations on routes (account_id, destination_id, id) where deleted_at is null;

-- Routes that match too and deliver nothing, one id after the other; null where there are none.
alter table events add column other_routes bytea;
