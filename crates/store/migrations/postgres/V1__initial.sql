-- The memory of Posthaste on PostgreSQL. Instants are microseconds since 1970 (bigint), told by the caller; only
-- `nodes` asks the database for the time. Documents are JSON as text: kept byte for byte, read by Rust alone.

-- The installation -------------------------------------------------------------------------------------------------

create table settings (
    name  text  primary key,
    value bytea not null
);

-- Configuration: what is searched or guarded has a column, the rest is the document ----------------------------------

create table accounts (
    id         uuid   primary key,
    uid        text   unique,
    version    bigint not null check (version > 0),     -- grows with every change of the account's configuration
    created_at bigint not null,
    doc        text   not null
);

create table api_keys (
    id           uuid   primary key,
    account_id   uuid   references accounts,             -- null: runs the installation
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
    check ((disabled_at is null) = (disabled_reason is null))
);
create index destinations_of_account on destinations (account_id, id desc);
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

-- Events -----------------------------------------------------------------------------------------------------------

-- By day of the id. The default partition takes what has no day of its own, so that no clock can make a commit fail.
create table events (
    id              uuid    not null primary key,
    account_id      uuid    not null,
    source_id       uuid,
    type            text    not null,
    idempotency_key text,
    content_type    text    not null,
    headers         text    not null,
    payload         bytea   not null,
    ordering_key    text,
    metadata        text    not null,
    received_at     bigint  not null,
    deliver_at      bigint,
    deliveries      integer not null check (deliveries >= 0),
    size_bytes      integer not null check (size_bytes >= 0)
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
create index events_of_account on events (account_id, id desc);
create table events_default partition of events default with (toast_tuple_target = 8160);

-- Its own table: it cannot be unique on day partitions.
create table idempotency (
    scope      uuid    not null,                           -- the source, or the account
    key_hash   bytea   not null,
    body_hash  bytea   not null,
    event_id   uuid    not null,
    deliveries integer not null,
    created_at bigint  not null,
    primary key (scope, key_hash)
);
create index idempotency_by_age on idempotency (created_at);

-- Deliveries -------------------------------------------------------------------------------------------------------

-- One row is a delivery that has not ended. Inserted by ingest, moved and deleted by its owner.
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
    primary key (shard, destination_id, track, rank, delivery_id),
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
    detail         text,
    node_id        uuid,                                   -- null: ended by API
    ending         text,
    reason         text,
    ended_at       bigint,
    late           boolean  not null,                      -- a former owner's word, or overtaken: it moved nothing
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
create index attempts_ended_of_account on attempts (account_id, delivery_id desc) where ending is not null;
create index attempts_dead_letters on attempts (account_id, destination_id, reason, delivery_id)
    where ending = 'dead_letter';
create index attempts_ended_of_event on attempts (event_id) where ending is not null;
-- Of endings and attempts alike: most attempts are the ending, and a second index would cost more than a few steps.
create index attempts_of_destination on attempts (destination_id, delivery_id desc, attempt_id desc);
create table attempts_default partition of attempts default;

-- Lanes ------------------------------------------------------------------------------------------------------------

create table gates (
    destination_id uuid   primary key,
    doc            text   not null,
    updated_at     bigint not null
);

create table lanes (
    destination_id uuid   primary key,
    node_id        uuid   not null,
    doc            text   not null,
    updated_at     bigint not null
);

create table nodes (
    id         uuid        primary key,
    label      text        not null,
    proof      text        not null,
    version    text        not null,
    expires_at timestamptz not null
);

create table shards (
    shard   smallint primary key check (shard between 0 and 1023),
    node_id uuid,
    epoch   bigint   not null default 0
);
insert into shards (shard) select generate_series(0, 1023);

-- For servers behind a pooler, where NOTIFY does not pass.
create table wakes (
    shard smallint primary key check (shard between 0 and 1023),
    round bigint   not null
);

-- Large work under way ---------------------------------------------------------------------------------------------

create table expansions (
    event_id   uuid    primary key,
    account_id uuid    not null,
    cursor     uuid,                                       -- the last route done
    deliveries integer not null check (deliveries >= 0),
    created_at bigint  not null,
    ended_at   bigint
);

create table replays (
    id         uuid   primary key,
    account_id uuid   not null references accounts,
    cursor     uuid,                                       -- the last delivery done
    created_at bigint not null,
    ended_at   bigint,
    doc        text   not null
);
create index replays_of_account on replays (account_id, id desc);

create table rollups (
    account_id     uuid     not null,
    destination_id uuid     not null,
    span           text     not null check (span in ('minute', 'hour', 'day')),
    starts_at      bigint   not null,
    doc            text     not null,
    primary key (account_id, destination_id, span, starts_at)
);
