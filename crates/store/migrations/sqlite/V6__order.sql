-- Order: a destination's deliveries are numbered without gaps, in the order of their commits.
create table sequences (
    destination_id blob not null primary key,
    -- The last number that was given.
    last integer not null check (last > 0)
) without rowid;

-- Null where nothing is ordered, and while a delivery waits for its time.
alter table queue add column sequence integer;
alter table attempts add column sequence integer;

-- Routes of ordered destinations, one id after the other: their deliveries were committed with the event.
alter table expansions add column inline_routes blob not null default x'';
