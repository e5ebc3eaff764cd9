-- Every hold of a destination, one row each; the one that goes on has no end yet.
create table holds (
    destination_id uuid   not null,
    since          bigint not null,
    reason         text   not null,
    until          bigint,
    detail         text   not null,
    step           integer,
    ended_at       bigint,
    primary key (destination_id, since, reason)
);
create index holds_ended on holds (ended_at) where ended_at is not null;
