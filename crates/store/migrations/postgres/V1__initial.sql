-- The memory of Posthaste on PostgreSQL. Instants are microseconds since 1970 (bigint), told by the caller; only
-- `nodes` asks the database for the time. Documents are JSON as text: kept byte for byte, read by Rust alone. A column
-- stands beside a document where something is searched or guarded by it.

-- --- The installation ----------------------------------------------------------------------------------------------

create table settings (
    name  text  primary key,
    value bytea not null
);

-- --- Configuration: written by the API, versioned by account ---------------------------------------------------------

create table accounts (
    id         uuid   primary key,
    uid        text   unique,
    version    bigint not null check (version > 0),     -- grows with every change of the account's configuration
    created_at bigint not null,
    doc        text   not null
);

create table api_keys (
    id           uuid   primary key,
    account_id   uuid   references accounts,             -- null: an operator's key
    lookup       text   not null unique,
    created_at   bigint not null,
    last_used_at bigint,
    revoked_at   bigint,
    doc          text   not null
);
create index api_keys_of_account on api_keys (account_id, id desc);

create table sources (
    id         uuid   primary key,
    account_id uuid   not null references accounts,
    uid        text,
    token_hash bytea  not null unique,
    version    bigint not null,
    created_at bigint not null,
    deleted_at bigint,
    doc        text   not null
);
create index sources_of_account on sources (account_id, id desc);
create unique index sources_uid on sources (account_id, uid) where deleted_at is null;

-- A deleted destination stays until its lane is empty.
create table destinations (
    id              uuid     primary key,
    account_id      uuid     not null references accounts,
    uid             text,
    shard           smallint not null check (shard between 0 and 1023),
    version         bigint   not null,
    created_at      bigint   not null,
    paused_at       bigint,
    resumed_at      bigint,
    disabled_at     bigint,
    disabled_reason text     check (disabled_reason in ('requested', 'gone')),
    deleted_at      bigint,
    doc             text     not null,
    probed_at       bigint,                               -- "probe now", asked on any node, seen by the lane's owner
    check ((disabled_at is null) = (disabled_reason is null))
);
create index destinations_of_account on destinations (account_id, id desc);
create index destinations_by_version on destinations (account_id, version);
create unique index destinations_uid on destinations (account_id, uid) where deleted_at is null;

create table routes (
    id             uuid    primary key,
    account_id     uuid    not null references accounts,
    uid            text,
    source_id      uuid    references sources,             -- null: events published by API
    destination_id uuid    not null references destinations,
    overrides      boolean not null,                       -- has settings of its own
    version        bigint  not null,
    created_at     bigint  not null,
    deleted_at     bigint,                                 -- stays, so that snapshots learn of it
    doc            text    not null
);
create index routes_of_account on routes (account_id, id desc);
create index routes_by_version on routes (account_id, version);
create index routes_by_source on routes (source_id) where deleted_at is null;
create index routes_by_destination on routes (destination_id) where deleted_at is null;
create index routes_with_overrides on routes (destination_id) where overrides; -- deleted ones too: some delivery waits
create unique index routes_uid on routes (account_id, uid) where deleted_at is null;

-- --- What happened: events, deliveries, attempts -----------------------------------------------------------------------

-- By day of the id. The default partition takes what has no day of its own, so that no clock can make a commit fail.
create table events (
    id              uuid    not null primary key,
    account_id      uuid    not null,
    source_id       uuid,                                  -- null: published by API
    type            text    not null,
    idempotency_key text,
    content_type    text    not null,
    headers         text    not null,
    payload         bytea   not null,                      -- packed where that makes it smaller
    ordering_key    text,
    metadata        text    not null,
    received_at     bigint  not null,
    deliver_at      bigint,
    deliveries      integer check (deliveries >= 0),       -- it was committed with; null while an expansion makes them
    size_bytes      integer not null check (size_bytes >= 0), -- of the payload as it was accepted
    payload_crc     integer                                -- CRC-32 of the payload as it is stored
) partition by range (id);
-- In line where it fits: 34 against 60-66 µs at 4 KB. Partitions also get a higher toast_tuple_target.
alter table events alter column payload set storage main;
do $$
begin
    alter table events alter column payload set compression lz4;
exception when feature_not_supported then
    null; -- a server built without lz4 compresses its own way
end
$$;
-- Ids grow: an index that has them upwards fills its pages, one that has them downwards splits each in the middle and
-- leaves half of it empty. Read backwards it gives the same order. So it is with the indexes of attempts.
create index events_by_account on events (account_id, id);
create table events_default partition of events default with (toast_tuple_target = 8160);

-- (scope, key) -> the event that came first. Its own table: it cannot be unique on day partitions.
create table idempotency (
    scope      uuid    not null,                           -- the source, or the account
    key_hash   bytea   not null,
    body_hash  bytea   not null,
    event_id   uuid    not null,
    deliveries integer,                                    -- null: an expansion makes them, and the event knows
    created_at bigint  not null,
    primary key (scope, key_hash)
);
create index idempotency_by_age on idempotency (created_at);

-- One row is a delivery that has not ended. Inserted by ingest, moved and deleted by its owner.
--
-- A delivery's id stands in one index only, the one it is looked up by. A planner that takes the queue for empty (it was,
-- when statistics were gathered) finds any index that has the id as good as another, and would as soon walk through the
-- lanes' key to its last column for each delivery: seconds, in a full queue. So the lanes are told apart at equal ranks
-- by a copy, `tie`.
create table queue (
    shard            smallint not null,
    destination_id   uuid     not null,
    track            bigint   not null,
    rank             bigint   not null,
    delivery_id      uuid     not null,
    account_id       uuid     not null,
    event_id         uuid     not null,
    route_id         uuid     not null,
    replay_id        uuid,
    origin           uuid     not null,
    due_at           bigint   not null,
    attempts         integer  not null check (attempts >= 0),
    spent            integer  not null check (spent >= 0),
    tls_errors       integer  not null check (tls_errors >= 0),
    last_outcome     text,
    last_http_status smallint,
    created_at       bigint   not null,
    available_at     bigint   not null,
    payload_bytes    integer  not null check (payload_bytes >= 0),
    sequence         bigint,                               -- null where nothing is ordered, or before its time
    tie              uuid     generated always as (delivery_id) stored,
    primary key (shard, destination_id, track, rank, tie),
    unique (account_id, delivery_id),
    check (attempts >= spent and attempts >= tls_errors),
    check ((attempts = 0) = (last_outcome is null))
) with (
    -- Every row is deleted soon: dead entries must go early, and without pauses, or the lanes' reads walk over them.
    fillfactor = 90,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
create index queue_by_event on queue (event_id);

-- Order: a destination's deliveries are numbered without gaps, in the order of their commits.
create table sequences (
    destination_id uuid   primary key,
    last           bigint not null check (last > 0)        -- the last number that was given
);

-- One row is a fact about a delivery: an attempt, or an ending without one. Append only; by day of the delivery.
create table attempts (
    delivery_id    uuid     not null,
    attempt_id     uuid     not null,
    account_id     uuid     not null,
    event_id       uuid     not null,
    destination_id uuid     not null,
    route_id       uuid     not null,
    replay_id      uuid,
    origin         uuid     not null,
    number         integer,                                -- null: an ending without an attempt
    attempts       integer  not null check (attempts >= 0), -- made so far, this one included
    spent          integer  not null check (spent >= 0),
    started_at     bigint,
    duration_us    bigint,
    outcome        text,                                   -- without an attempt: of the last one before
    http_status    smallint,
    detail         text,                                   -- empty where it is packed
    node_id        uuid,                                   -- null: ended by API
    ending         text,
    reason         text,
    ended_at       bigint,
    late           boolean  not null,                      -- a former owner's word, or overtaken: it moved nothing
    sequence       bigint,
    detail_packed  bytea,
    primary key (delivery_id, attempt_id),
    check (number is null or (number > 0 and number = attempts)),
    check (number is null
           or (started_at is not null and duration_us is not null and outcome is not null and detail is not null
               and node_id is not null)),
    check (number is not null or ending is not null or late),
    check (not (late and ending is not null)),
    check ((ending is null) = (ended_at is null)),
    check (case ending
               when 'delivered' then reason is null and number is not null and outcome = 'success'
               when 'dead_letter' then reason is not null
               when 'cancelled' then reason in ('requested', 'destination_deleted')
               else ending is null and reason is null
           end)
) partition by range (delivery_id);
create index attempts_ended_by_account on attempts (account_id, delivery_id) where ending is not null;
create index attempts_ended_of_event on attempts (event_id) where ending is not null;
-- Of endings and attempts alike: most attempts are the ending, and a second index would cost more than a few steps.
-- Without the attempt: few deliveries have several, and those few are sorted when they are read.
create index attempts_by_destination on attempts (destination_id, delivery_id);
-- An account's dead letters by age. No ending is late: a statement that does not say so has the groups' index, not this.
create index attempts_dead_letters on attempts (account_id, delivery_id) where ending = 'dead_letter' and not late;
-- And by what they have in common.
create index attempts_dead_letter_groups
    on attempts (account_id, destination_id, reason, http_status nulls first, delivery_id)
    where ending = 'dead_letter';
-- Facts are appended about in the order in which their attempts began: a minute of them is a few pages of each day. The
-- chore that sums up a minute has the block ranges of the days summarised before. Left to the server, each range is a
-- request of its own: it keeps 256 of them for a minute, and writes of each that it has no room for to its log, which
-- was many a second under load.
create index attempts_by_time on attempts using brin (attempt_id) with (pages_per_range = 16);
create table attempts_default partition of attempts default;

-- How many dead letters there are of each destination, reason and HTTP status, by the day of their ids: the table of a
-- day is dropped as a whole, and its counts with it. Kept by the tables themselves: a statement that writes or forgets a
-- dead letter need not know.
create table dead_letter_counts (
    account_id     uuid     not null,
    destination_id uuid     not null,
    reason         text     not null,
    http_status    smallint not null,                      -- of the last attempt; 0: none
    day            integer  not null,                      -- since 1970
    count          bigint   not null check (count >= 0),
    oldest         uuid     not null,
    newest         uuid     not null,
    primary key (account_id, destination_id, reason, http_status, day)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
create index dead_letter_counts_by_day on dead_letter_counts (day);

-- The day in which an id was made: its first 48 bits are milliseconds.
create function day_of(id uuid) returns integer language sql immutable strict parallel safe
return (('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 86400000)::integer;

create function dead_letter_came() returns trigger language plpgsql as $$
begin
    insert into dead_letter_counts as c
    values (new.account_id, new.destination_id, new.reason, coalesce(new.http_status, 0), day_of(new.delivery_id), 1,
            new.delivery_id, new.delivery_id)
    on conflict (account_id, destination_id, reason, http_status, day)
    do update set count = c.count + 1, oldest = least(c.oldest, excluded.oldest),
                  newest = greatest(c.newest, excluded.newest);
    return null;
end $$;

-- Looked at for every fact, run for dead letters alone.
create trigger attempts_dead_letter_came after insert on attempts
for each row when (new.ending = 'dead_letter') execute function dead_letter_came();

-- In steps of retention, each of a few hundred rows. What is left of a group may have another oldest and newest: they are
-- looked up in their day, those without a status in the order of the index, so that none is read from end to end.
create function dead_letters_went() returns trigger language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    one record;
begin
    for one in
        select g.account_id, g.destination_id, g.reason, coalesce(g.http_status, 0) as http_status,
               day_of(g.delivery_id) as day, count(*) as count
        from gone g
        where g.ending = 'dead_letter'
        group by 1, 2, 3, 4, 5
        order by 1, 2, 3, 4, 5
    loop
        update dead_letter_counts c
        set count = greatest(c.count - one.count, 0),
            oldest = coalesce(
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status = c.http_status
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.delivery_id
                 limit 1),
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status is null and c.http_status = 0
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.http_status nulls first, a.delivery_id
                 limit 1),
                c.oldest),
            newest = coalesce(
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status = c.http_status
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.delivery_id desc
                 limit 1),
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status is null and c.http_status = 0
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.http_status desc nulls last, a.delivery_id desc
                 limit 1),
                c.newest)
        where c.account_id = one.account_id and c.destination_id = one.destination_id and c.reason = one.reason
          and c.http_status = one.http_status and c.day = one.day;
        delete from dead_letter_counts c
        where c.account_id = one.account_id and c.destination_id = one.destination_id and c.reason = one.reason
          and c.http_status = one.http_status and c.day = one.day and c.count = 0;
    end loop;
    return null;
end $$;

create trigger attempts_dead_letters_went after delete on attempts
referencing old table as gone
for each statement execute function dead_letters_went();

-- --- What the owner of a lane keeps ------------------------------------------------------------------------------------

-- Throttle, breaker and ramp of a destination.
create table gates (
    destination_id uuid   primary key,
    doc            text   not null,
    updated_at     bigint not null
);

-- Every hold of a destination, one row each; the one that goes on has no end yet.
create table holds (
    destination_id uuid   not null,
    since          bigint not null,
    reason         text   not null,
    until          bigint,
    detail         text   not null,
    step           integer,
    ended_at       bigint,
    -- When it was last written: a listener looks for the newest. Holds begin and end seldom; no delivery pays for this.
    changed_at     bigint not null default 0,
    primary key (destination_id, since, reason)
);
create index holds_ended on holds (ended_at) where ended_at is not null;
create index holds_changed on holds (changed_at, destination_id);

-- The owner's last word about a lane worth looking at.
create table lanes (
    destination_id uuid   primary key,
    node_id        uuid   not null,
    doc            text   not null,
    updated_at     bigint not null
);

-- --- Membership --------------------------------------------------------------------------------------------------------

create table nodes (
    id         uuid        primary key,
    label      text        not null,
    proof      text        not null,
    version    text        not null,
    expires_at timestamptz not null,
    role       text        not null default 'all' check (role in ('all', 'api', 'worker')),
    address    text,                                       -- where it listens, for people
    joined_at  timestamptz not null default now()
);

-- Which node owns what: every shard has a row from the beginning.
create table shards (
    shard     smallint primary key check (shard between 0 and 1023),
    node_id   uuid,
    epoch     bigint   not null default 0,
    wanted_by uuid                                         -- a node that would like to have it; its owner drains it
);
insert into shards (shard) select generate_series(0, 1023);

-- For servers behind a pooler, where notifications do not pass. Besides the shards: -1 for membership and ownership, -2
-- for the last time a node read this table.
create table wakes (
    shard smallint primary key check (shard between -2 and 1023),
    round bigint   not null
);

-- Which node does a chore that one node does at a time; a node that takes it over counts the term up.
create table chores (
    name       text   primary key,
    node_id    uuid   not null,
    term       bigint not null,
    expires_at bigint not null
);

-- --- Large work under way, and sums ------------------------------------------------------------------------------------

-- An event whose deliveries are made in chunks, route by route. One that is done is deleted: its event knows the number
-- of its deliveries from then on.
create table expansions (
    event_id        uuid    primary key,
    account_id      uuid    not null,
    cursor          uuid,                                  -- the last route done
    deliveries      integer not null check (deliveries >= 0),
    created_at      bigint  not null,
    account_version bigint  not null default 0,            -- at the commit: a route unchanged since was there
    inline_routes   uuid[]  not null default '{}'          -- of ordered destinations: committed with the event
);

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
    held_by       uuid,                                    -- the node that makes its deliveries
    held_until    bigint,                                  -- until then no other does
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

-- Sums of a span of time. The nil id stands for the account as a whole.
create table rollups (
    account_id     uuid   not null,
    destination_id uuid   not null,
    span           text   not null check (span in ('minute', 'hour', 'day', 'fanout_minute', 'fanout_hour')),
    starts_at      bigint not null,
    doc            text   not null,
    primary key (account_id, destination_id, span, starts_at)
);
create index rollups_by_age on rollups (span, starts_at);

-- Up to when a span's rollups are written.
create table rollup_marks (
    name      text   primary key,
    closed_at bigint not null
);
