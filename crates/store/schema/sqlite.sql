CREATE TABLE accounts (
    id blob not null primary key check (length(id) = 16),
    uid text,
    -- Grows with every change of anything the account owns.
    version integer not null check (version > 0),
    created_at integer not null,
    deleted_at integer,
    doc text not null
) without rowid;

CREATE UNIQUE INDEX accounts_uid on accounts (uid) where deleted_at is null;

CREATE TABLE api_keys (
    id blob not null primary key check (length(id) = 16),
    -- Null: a key of an operator or a platform.
    account_id blob,
    lookup text not null,
    hash blob not null,
    name text not null,
    kind text not null check (kind in ('account', 'ingest', 'operator', 'platform')),
    scopes text not null,
    source_id blob,
    rate_limit integer,
    expires_at integer,
    last_used_at integer,
    revoked_at integer,
    created_at integer not null, allowed_addresses text not null default '[]',
    check ((kind in ('operator', 'platform')) = (account_id is null))
) without rowid;

CREATE INDEX api_keys_account on api_keys (account_id, id);

CREATE UNIQUE INDEX api_keys_lookup on api_keys (lookup);

CREATE TRIGGER dead_letter_goes before delete on attempts when old.ending = 'dead_letter'
begin
    insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
    values (old.delivery_id, old.account_id, 0, old.delivery_id)
    on conflict (delivery_id) do nothing;
    delete from settled_dead_letters where delivery_id = old.delivery_id;
end;

CREATE TABLE attempts (
    delivery_id blob not null check (length(delivery_id) = 16),
    attempt_id blob not null check (length(attempt_id) = 16),
    account_id blob not null,
    event_id blob not null,
    destination_id blob not null,
    route_id blob not null,
    replay_id blob,
    -- Empty where it is the delivery itself.
    origin blob not null,
    -- Null: an ending without an attempt.
    number integer check (number > 0),
    spent integer not null check (spent >= 0),
    started_at integer,
    duration_us integer check (duration_us >= 0),
    outcome text,
    -- Of an ending without an attempt: the status of the last attempt before it, as its group of dead letters has it.
    http_status integer,
    node_id blob,
    ending text,
    reason text,
    ended_at integer,
    -- A former owner's word, or one overtaken by a cancel: it moved nothing.
    late integer not null check (late in (0, 1)),
    -- JSON, or a blob where it is packed.
    detail text,
    sequence integer,
    primary key (delivery_id, attempt_id),
    check ((number is null) = (outcome is null) and (number is null) = (started_at is null)
        and (number is null) = (duration_us is null) and (number is null) = (detail is null)),
    check (number is not null or ending is not null),
    check (not late or ending is null),
    check ((ending is null) = (ended_at is null)),
    check (case ending
        when 'delivered' then reason is null and number is not null
        when 'dead_letter' then reason in ('exhausted', 'rejected', 'gone', 'tls', 'blocked', 'undeliverable',
            'expired', 'destination_disabled')
        when 'cancelled' then reason in ('requested', 'destination_deleted')
        else ending is null and reason is null
    end)
);

CREATE INDEX attempts_dead_letter on attempts (account_id, delivery_id) where ending = 'dead_letter';

CREATE INDEX attempts_dead_letter_group
    on attempts (account_id, destination_id, reason, http_status, delivery_id, ending)
    where ending = 'dead_letter';

CREATE INDEX attempts_destination on attempts (destination_id, delivery_id);

CREATE INDEX attempts_ending_account on attempts (account_id, delivery_id) where ending is not null;

CREATE INDEX attempts_ending_event on attempts (event_id, delivery_id, ending, ended_at, replay_id)
    where ending is not null;

CREATE TABLE audit_chains (
    account_id blob not null primary key check (length(account_id) = 16),
    -- The last entry.
    number integer not null,
    hash blob not null,
    -- The last that was forgotten: from here the rest is checked.
    forgotten_number integer not null,
    forgotten_hash blob not null
) without rowid;

CREATE TABLE audit_entries (
    account_id blob not null,
    number integer not null,
    id blob not null,
    at integer not null,
    actor text not null,
    key_id blob,
    action text not null,
    object_id text,
    client text,
    request_id blob,
    -- As it is hashed, byte for byte.
    difference text,
    count integer,
    hash blob not null,
    primary key (account_id, number)
) without rowid;

CREATE INDEX audit_entries_by_id on audit_entries (id);

CREATE INDEX audit_entries_of_account on audit_entries (account_id, id);

CREATE TABLE dead_letter_counts (
    account_id blob not null,
    destination_id blob not null,
    reason text not null,
    http_status integer not null,                   -- of the last attempt; 0: none
    outcome text not null,                          -- of the last attempt; empty: there was none
    day integer not null,                           -- since 1970
    count integer not null check (count >= 0),
    oldest blob not null,
    newest blob not null,
    primary key (account_id, destination_id, reason, http_status, outcome, day)
) without rowid;

CREATE TABLE dead_letter_minutes (
    minute integer not null,
    destination_id blob not null,
    reason text not null,
    http_status integer not null,
    account_id blob not null,
    count integer not null,
    primary key (minute, destination_id, reason, http_status)
) without rowid;

CREATE TABLE destinations (
    id blob not null primary key check (length(id) = 16),
    account_id blob not null,
    uid text,
    version integer not null,
    created_at integer not null,
    -- A deleted destination stays until its lane is empty.
    deleted_at integer,
    shard integer not null check (shard between 0 and 1023),
    paused_at integer,
    resumed_at integer,
    disabled_at integer,
    disabled_reason text check (disabled_reason in ('requested', 'gone')),
    doc text not null,
    -- "Probe now", asked on any node, seen by the owner of the lane.
    probed_at integer,
    check ((disabled_at is null) = (disabled_reason is null))
) without rowid;

CREATE INDEX destinations_account on destinations (account_id, id) where deleted_at is null;

CREATE UNIQUE INDEX destinations_uid on destinations (account_id, uid) where deleted_at is null;

CREATE INDEX destinations_version on destinations (account_id, version);

CREATE TABLE erasures (
    account_id blob not null primary key check (length(account_id) = 16),
    requested_at integer not null,
    -- What is being erased, or was last.
    phase text not null,
    erased_rows integer not null default 0 check (erased_rows >= 0),
    finished_at integer
) without rowid;

CREATE INDEX erasures_open on erasures (account_id) where finished_at is null;

CREATE TABLE event_tags (
    account_id blob not null,
    tag text not null,
    event_id blob not null,
    primary key (account_id, tag, event_id)
) without rowid;

CREATE TABLE events (
    id blob not null primary key check (length(id) = 16),
    account_id blob not null,
    -- Null: published by API.
    source_id blob,
    type text not null,
    idempotency_key text,
    content_type text not null,
    ordering_key text,
    received_at integer not null,
    deliver_at integer,
    -- The deliveries it was committed with; null while an expansion makes them.
    deliveries integer check (deliveries >= 0),
    -- Of the payload as it was accepted.
    size_bytes integer not null check (size_bytes >= 0),
    headers text not null,
    metadata text not null,
    -- Packed where it is shorter than it was accepted.
    payload blob not null,
    -- CRC-32 of the payload as it is kept; null: not to be checked. Whoever asks for it has read the payload.
    payload_crc integer
, other_routes blob, tags text, payload_erased_at integer, sealed_headers blob);

CREATE INDEX events_account on events (account_id, id);

CREATE TABLE expanding_events (
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

CREATE TABLE expansions (
    event_id blob not null primary key,
    account_id blob not null,
    -- The last route that has its delivery; moved by compare-and-swap.
    cursor blob,
    deliveries integer not null default 0,
    created_at integer not null,
    -- The account's version when the event was committed: a route that has not changed since was there.
    account_version integer not null default 0,
    -- Routes of ordered destinations, one id after the other: their deliveries were committed with the event.
    inline_routes blob not null default x''
) without rowid;

CREATE TABLE gates (
    destination_id blob not null primary key,
    shard integer not null,
    updated_at integer not null,
    doc text not null
) without rowid;

CREATE TABLE holds (
    destination_id blob not null,
    since integer not null,
    reason text not null,
    until integer,
    detail text not null,
    step integer,
    ended_at integer,
    -- When the row was last written, for those who follow what happens: never the same twice, and always growing. Holds
    -- begin and end seldom; no delivery pays for this.
    changed_at integer not null default 0,
    primary key (destination_id, since, reason)
) without rowid;

CREATE INDEX holds_changed on holds (changed_at);

CREATE INDEX holds_ended on holds (ended_at) where ended_at is not null;

CREATE TABLE idempotency (
    number integer not null primary key,
    scope blob not null,
    key_hash blob not null,
    -- The event that came first.
    event_id blob not null,
    body_hash blob not null,
    created_at integer not null
);

CREATE TABLE idempotency_index (
    fingerprint integer not null,
    number integer not null,
    primary key (fingerprint, number)
) without rowid;

CREATE TABLE idempotency_indexed (
    up_to integer not null
);

CREATE TABLE lane_rollups (
    account_id blob not null,
    destination_id blob not null,
    span text not null check (span in ('minute', 'hour', 'day')),
    starts_at integer not null,
    node_id blob not null,
    doc text not null,
    primary key (account_id, destination_id, span, starts_at, node_id)
) without rowid;

CREATE INDEX lane_rollups_age on lane_rollups (span, starts_at, account_id, destination_id, node_id);

CREATE TABLE lanes (
    destination_id blob not null primary key,
    shard integer not null,
    node_id blob not null,
    seen_at integer not null,
    doc text not null
) without rowid;

CREATE TABLE nodes (
    id blob not null primary key,
    label text not null,
    proof text not null,
    version text not null,
    joined_at integer not null,
    expires_at integer not null,
    role text not null default 'all' check (role in ('all', 'api', 'worker')),
    -- Where it listens, for people.
    address text
, master_keys text not null default '', tables_version integer not null default 0) without rowid;

CREATE TABLE operational_notes (
    id blob not null,
    account_id blob not null,
    about_account_id blob not null,
    destination_id blob,
    kind text not null,
    data text not null,
    primary key (id, account_id)
) without rowid;

CREATE TABLE payload_erasures (
    event_id blob not null primary key check (length(event_id) = 16),
    account_id blob not null,
    erased_at integer not null
) without rowid;

CREATE TABLE portal_links (
    id blob not null primary key check (length(id) = 16),
    hash blob not null,
    account_id blob not null,
    maker text not null,
    maker_id blob not null,
    read_only integer not null,
    created_at integer not null,
    expires_at integer not null,
    session_seconds integer not null,
    opened_at integer,
    -- When nothing can come of it any more.
    ends_at integer not null
) without rowid;

CREATE INDEX portal_links_by_end on portal_links (ends_at);

CREATE UNIQUE INDEX portal_links_by_hash on portal_links (hash);

CREATE INDEX portal_links_by_maker on portal_links (maker_id);

CREATE INDEX portal_links_of_account on portal_links (account_id, id);

CREATE TABLE queue (
    shard integer not null check (shard between 0 and 1023),
    destination_id blob not null,
    track integer not null,
    rank integer not null,
    delivery_id blob not null check (length(delivery_id) = 16),
    account_id blob not null,
    event_id blob not null,
    route_id blob not null,
    replay_id blob,
    origin blob not null,
    due_at integer not null,
    attempts integer not null default 0 check (attempts >= 0),
    spent integer not null default 0 check (spent >= 0),
    tls_errors integer not null default 0 check (tls_errors >= 0),
    last_outcome text,
    last_http_status integer,
    created_at integer not null,
    available_at integer not null check (available_at >= created_at),
    payload_bytes integer not null check (payload_bytes >= 0),
    -- Null where nothing is ordered, and while a delivery waits for its time.
    sequence integer,
    primary key (shard, destination_id, track, rank, delivery_id),
    check ((attempts = 0) = (last_outcome is null)),
    check (last_http_status is null or last_outcome is not null)
) without rowid;

CREATE UNIQUE INDEX queue_delivery on queue (account_id, delivery_id);

CREATE INDEX queue_event on queue (event_id, delivery_id, replay_id);

CREATE TABLE refused_requests (
    source_id blob not null,
    at integer not null,
    account_id blob not null,
    doc text not null,
    body blob not null,
    primary key (source_id, at)
) without rowid;

CREATE INDEX refused_requests_account on refused_requests (account_id);

CREATE TABLE replayed (
    replay_id blob not null,
    origin blob not null,
    delivery_id blob not null,
    primary key (replay_id, origin)
) without rowid;

CREATE UNIQUE INDEX replayed_delivery on replayed (replay_id, delivery_id);

CREATE TABLE replays (
    id blob not null primary key check (length(id) = 16),
    account_id blob not null,
    status text not null check (status in ('running', 'paused', 'completed', 'cancelled')),
    -- Deliveries a second.
    rate integer not null check (rate > 0),
    -- Counted when it was made; all there were, or as far as was looked.
    matched integer not null check (matched >= 0),
    matched_exact integer not null check (matched_exact in (0, 1)),
    -- The last original that is done; moved by compare-and-swap.
    cursor blob,
    created integer not null default 0,
    skipped integer not null default 0,
    -- What has become of those that were made.
    delivered integer not null default 0,
    dead_letter integer not null default 0,
    -- Who makes its deliveries, and until when nobody else does.
    held_by blob,
    held_until integer,
    created_at integer not null,
    finished_at integer,
    key_hash blob,
    body_hash blob,
    doc text not null,
    -- Sorted, one id after the other; null if it goes by a filter. Last, so that nobody walks over it.
    delivery_ids blob, cursor_destination blob,
    check ((key_hash is null) = (body_hash is null)),
    check ((held_by is null) = (held_until is null)),
    check ((finished_at is null) = (status in ('running', 'paused')))
);

CREATE INDEX replays_account on replays (account_id, id);

CREATE UNIQUE INDEX replays_key on replays (account_id, key_hash) where key_hash is not null;

CREATE INDEX replays_running on replays (id) where status = 'running';

CREATE INDEX replays_unfinished on replays (account_id) where finished_at is null;

CREATE TABLE rollup_marks (
    name text not null primary key,
    closed_at integer not null
) without rowid;

CREATE TABLE rollups (
    account_id blob not null,
    destination_id blob not null,
    span text not null check (span in ('minute', 'hour', 'day', 'fanout_minute', 'fanout_hour')),
    starts_at integer not null,
    doc text not null,
    primary key (account_id, destination_id, span, starts_at)
) without rowid;

CREATE INDEX rollups_age on rollups (span, starts_at);

CREATE TABLE routes (
    id blob not null primary key check (length(id) = 16),
    account_id blob not null,
    uid text,
    version integer not null,
    created_at integer not null,
    -- A deleted route stays, so that snapshots hear of it.
    deleted_at integer,
    -- Null: events published by API.
    source_id blob,
    destination_id blob not null,
    doc text not null
) without rowid;

CREATE INDEX routes_account on routes (account_id, id) where deleted_at is null;

CREATE INDEX routes_destination on routes (destination_id);

CREATE INDEX routes_source on routes (source_id) where deleted_at is null;

CREATE UNIQUE INDEX routes_uid on routes (account_id, uid) where deleted_at is null;

CREATE INDEX routes_version on routes (account_id, version);

CREATE INDEX routes_walk on routes (account_id, destination_id, id) where deleted_at is null;

CREATE TABLE sequences (
    destination_id blob not null primary key,
    -- The last number that was given.
    last integer not null check (last > 0)
) without rowid;

CREATE TABLE sessions (
    id blob not null primary key check (length(id) = 16),
    hash blob not null,
    holder text not null,
    holder_id blob not null,
    account_id blob,
    created_at integer not null,
    seen_at integer not null,
    expires_at integer not null,
    client text not null,
    user_agent text
) without rowid;

CREATE UNIQUE INDEX sessions_by_hash on sessions (hash);

CREATE INDEX sessions_by_seen_at on sessions (seen_at);

CREATE INDEX sessions_of_holder on sessions (holder_id, id);

CREATE TABLE settings (
    name text not null primary key,
    value blob not null
) without rowid;

CREATE TRIGGER dead_letter_settled after insert on settled_dead_letters
begin
    update dead_letter_counts
    set count = max(count - 1, 0),
        oldest = iif(oldest <> new.delivery_id, oldest, coalesce(
            (select looked_at.delivery_id
             from (
                 select a.delivery_id, a.outcome
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id > dead_letter_counts.oldest and a.delivery_id <= dead_letter_counts.newest
                 order by a.delivery_id
                 limit 1000
             ) looked_at
             where not exists (select 1 from settled_dead_letters s where s.delivery_id = looked_at.delivery_id)
               and coalesce(looked_at.outcome, (
                   select l.outcome
                   from attempts l
                   where l.delivery_id = looked_at.delivery_id and l.number is not null and not l.late
                   order by l.number desc
                   limit 1
                 ), '') = dead_letter_counts.outcome
             limit 1),
            (select max(looked_at.delivery_id)
             from (
                 select a.delivery_id
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id > dead_letter_counts.oldest and a.delivery_id <= dead_letter_counts.newest
                 order by a.delivery_id
                 limit 1000
             ) looked_at),
            oldest)),
        newest = iif(newest <> new.delivery_id, newest, coalesce(
            (select looked_at.delivery_id
             from (
                 select a.delivery_id, a.outcome
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id < dead_letter_counts.newest and a.delivery_id >= dead_letter_counts.oldest
                 order by a.delivery_id desc
                 limit 1000
             ) looked_at
             where not exists (select 1 from settled_dead_letters s where s.delivery_id = looked_at.delivery_id)
               and coalesce(looked_at.outcome, (
                   select l.outcome
                   from attempts l
                   where l.delivery_id = looked_at.delivery_id and l.number is not null and not l.late
                   order by l.number desc
                   limit 1
                 ), '') = dead_letter_counts.outcome
             limit 1),
            (select min(looked_at.delivery_id)
             from (
                 select a.delivery_id
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id < dead_letter_counts.newest and a.delivery_id >= dead_letter_counts.oldest
                 order by a.delivery_id desc
                 limit 1000
             ) looked_at),
            newest))
    where (account_id, destination_id, reason, http_status, outcome) = (
        select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0),
          coalesce(a.outcome, (
            select l.outcome
            from attempts l
            where l.delivery_id = a.delivery_id and l.number is not null and not l.late
            order by l.number desc
            limit 1
          ), '')
        from attempts a
        where a.delivery_id = new.delivery_id and a.ending = 'dead_letter'
    )
      and new.delivery_id >= unhex(printf('%012X', day * 86400000))
      and new.delivery_id < unhex(printf('%012X', (day + 1) * 86400000));
    delete from dead_letter_counts
    where (account_id, destination_id, reason, http_status) = (
        select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0)
        from attempts a
        where a.delivery_id = new.delivery_id and a.ending = 'dead_letter'
    )
      and count = 0;
end;

CREATE TABLE settled_dead_letters (
    delivery_id blob not null primary key check (length(delivery_id) = 16),
    account_id blob not null,
    resolved_at integer not null,
    -- The delivery of its chain that was delivered, or the key or user that dismissed it, as it is shown.
    delivered_by blob,
    dismissed_by text,
    note text,
    check ((delivered_by is null) <> (dismissed_by is null)),
    check (note is null or dismissed_by is not null)
) without rowid;

CREATE TABLE shards (
    shard integer not null primary key check (shard between 0 and 1023),
    node_id blob,
    epoch integer not null default 0,
    -- A node that would like to have it; its owner drains it.
    wanted_by blob
);

CREATE TABLE sign_in_links (
    hash blob not null primary key,
    purpose text not null,
    key_id blob,
    expires_at integer not null
) without rowid;

CREATE TABLE sources (
    id blob not null primary key check (length(id) = 16),
    account_id blob not null,
    uid text,
    version integer not null,
    created_at integer not null,
    deleted_at integer,
    token_hash blob not null,
    doc text not null
) without rowid;

CREATE INDEX sources_account on sources (account_id, id) where deleted_at is null;

CREATE UNIQUE INDEX sources_token on sources (token_hash) where deleted_at is null;

CREATE UNIQUE INDEX sources_uid on sources (account_id, uid) where deleted_at is null;

CREATE TABLE test_sends (
    id blob not null primary key,
    shard integer not null,
    doc text not null,
    asked_at integer not null,
    taken integer not null default 0,
    answer text
) without rowid;

CREATE TABLE told_accounts (
    account_id blob not null primary key check (length(account_id) = 16),
    -- The operator's: it is told of every account.
    whole_installation integer not null default 0
) without rowid;

CREATE INDEX told_accounts_operators on told_accounts (account_id) where whole_installation;

CREATE TABLE users (
    id blob not null primary key check (length(id) = 16),
    name text not null,
    password text not null,
    role text not null,
    -- Ids, as JSON.
    accounts text not null,
    created_at integer not null,
    updated_at integer not null
) without rowid;

CREATE UNIQUE INDEX users_by_user_name on users (name);

CREATE TABLE wakes (
    shard integer not null primary key check (shard between 0 and 1023),
    woken_at integer not null
);

