-- Order: a destination's deliveries are numbered without gaps, in the order of their commits.
create table sequences (
    destination_id uuid   primary key,
    last           bigint not null check (last > 0)        -- the last number that was given
);

-- Null where nothing is ordered, and while a delivery waits for its time.
alter table queue add column sequence bigint;
alter table attempts add column sequence bigint;

-- Routes of ordered destinations: their deliveries were committed with the event.
alter table expansions add column inline_routes uuid[] not null default '{}';
