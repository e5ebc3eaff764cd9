-- Replays, and dead letters in groups. Nobody has written a replay before this.
drop table replays;

create table replays (
    id            uuid    primary key,
    account_id    uuid    not null,
    status        text    not null check (status in ('running', 'paused', 'completed', 'cancelled')),
    rate          integer not null check (rate > 0),       -- deliveries a second
    matched       bigint  not null check (matched >= 0),   -- counted when it was made
    matched_exact boolean not null,                        -- all there were, or as far as was looked
    cursor        uuid,                                    -- the last original that is done
    created       bigint  not null default 0,
    skipped       bigint  not null default 0,
    held_by       uuid,                                    -- who makes its deliveries
    held_until    bigint,                                  -- until then nobody else does
    created_at    bigint  not null,
    finished_at   bigint,
    key_hash      bytea,
    body_hash     bytea,
    doc           text    not null,
    delivery_ids  uuid[],                                  -- sorted; null if it goes by a filter
    check ((key_hash is null) = (body_hash is null)),
    check ((held_by is null) = (held_until is null)),
    check ((finished_at is null) = (status in ('running', 'paused')))
);
create index replays_of_account on replays (account_id, id desc);
create index replays_running on replays (id) where status = 'running';
create index replays_unfinished on replays (account_id) where finished_at is null;
create unique index replays_key on replays (account_id, key_hash) where key_hash is not null;

-- What has become of a replay's deliveries, by the node that settled them: nodes do not wait for each other.
create table replay_counts (
    replay_id   uuid   not null,
    node_id     uuid   not null,
    delivered   bigint not null,
    dead_letter bigint not null,
    primary key (replay_id, node_id)
);

-- What a replay has made of an origin: once, whatever happens.
create table replayed (
    replay_id   uuid not null,
    origin      uuid not null,
    delivery_id uuid not null,
    primary key (replay_id, origin)
);
create unique index replayed_delivery on replayed (replay_id, delivery_id);

-- An account's dead letters: by age, and by what they have in common.
drop index attempts_dead_letters;
-- No ending is late. Whoever does not say so has the groups' index, and not this one.
create index attempts_dead_letters on attempts (account_id, delivery_id) where ending = 'dead_letter' and not late;
create index attempts_dead_letter_groups
    on attempts (account_id, destination_id, reason, http_status nulls first, delivery_id)
    where ending = 'dead_letter';
