-- Every hold of a destination, one row each; the one that goes on has no end yet.
create table holds (
    destination_id blob not null,
    since integer not null,
    reason text not null,
    until integer,
    detail text not null,
    step integer,
    ended_at integer,
    primary key (destination_id, since, reason)
) without rowid;

create index holds_ended on holds (ended_at) where ended_at is not null;

-- Gates are read with their destination, never by shard.
drop index gates_shard;
