-- The schema on PostgreSQL, as the catalogs tell it: written by a test, for people to read and compare.

table accounts
    id uuid not null
    uid text
    version bigint not null
    created_at bigint not null
    doc text not null
    deleted_at bigint
    constraint accounts_pkey PRIMARY KEY (id)
    constraint accounts_uid_key UNIQUE (uid)
    constraint accounts_version_check CHECK ((version > 0))

table api_keys
    id uuid not null
    account_id uuid
    lookup text not null
    created_at bigint not null
    last_used_at bigint
    revoked_at bigint
    doc text not null
    constraint api_keys_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
    constraint api_keys_lookup_key UNIQUE (lookup)
    constraint api_keys_pkey PRIMARY KEY (id)
    index api_keys_of_account USING btree (account_id, id DESC)

table attempts
    delivery_id uuid not null
    attempt_id uuid not null
    account_id uuid not null
    event_id uuid not null
    destination_id uuid not null
    route_id uuid not null
    replay_id uuid
    origin uuid not null
    number integer
    attempts integer not null
    spent integer not null
    started_at bigint
    duration_us bigint
    outcome text
    http_status smallint
    detail text
    node_id uuid
    ending text
    reason text
    ended_at bigint
    late boolean not null
    sequence bigint
    detail_packed bytea
    answer_erased boolean
    constraint attempts_attempts_check CHECK ((attempts >= 0))
    constraint attempts_check CHECK (((number IS NULL) OR ((number > 0) AND (number = attempts))))
    constraint attempts_check1 CHECK (((number IS NULL) OR ((started_at IS NOT NULL) AND (duration_us IS NOT NULL) AND (outcome IS NOT NULL) AND (detail IS NOT NULL) AND (node_id IS NOT NULL))))
    constraint attempts_check2 CHECK (((number IS NOT NULL) OR (ending IS NOT NULL) OR late))
    constraint attempts_check3 CHECK ((NOT (late AND (ending IS NOT NULL))))
    constraint attempts_check4 CHECK (((ending IS NULL) = (ended_at IS NULL)))
    constraint attempts_check5 CHECK (
CASE ending
    WHEN 'delivered'::text THEN ((reason IS NULL) AND (number IS NOT NULL) AND (outcome = 'success'::text))
    WHEN 'dead_letter'::text THEN (reason IS NOT NULL)
    WHEN 'cancelled'::text THEN (reason = ANY (ARRAY['requested'::text, 'destination_deleted'::text]))
    ELSE ((ending IS NULL) AND (reason IS NULL))
END)
    constraint attempts_pkey PRIMARY KEY (delivery_id, attempt_id)
    constraint attempts_spent_check CHECK ((spent >= 0))
    index attempts_by_destination USING btree (destination_id, delivery_id)
    index attempts_by_time USING brin (attempt_id) WITH (pages_per_range='16')
    index attempts_dead_letter_groups USING btree (account_id, destination_id, reason, http_status NULLS FIRST, delivery_id) WHERE (ending = 'dead_letter'::text)
    index attempts_dead_letters USING btree (account_id, delivery_id) WHERE ((ending = 'dead_letter'::text) AND (NOT late))
    index attempts_ended_by_account USING btree (account_id, delivery_id) WHERE (ending IS NOT NULL)
    index attempts_ended_of_event USING btree (event_id) WHERE (ending IS NOT NULL)
    partition by RANGE (delivery_id)

table attempts_default
    delivery_id uuid not null
    attempt_id uuid not null
    account_id uuid not null
    event_id uuid not null
    destination_id uuid not null
    route_id uuid not null
    replay_id uuid
    origin uuid not null
    number integer
    attempts integer not null
    spent integer not null
    started_at bigint
    duration_us bigint
    outcome text
    http_status smallint
    detail text
    node_id uuid
    ending text
    reason text
    ended_at bigint
    late boolean not null
    sequence bigint
    detail_packed bytea
    answer_erased boolean
    constraint attempts_attempts_check CHECK ((attempts >= 0))
    constraint attempts_check CHECK (((number IS NULL) OR ((number > 0) AND (number = attempts))))
    constraint attempts_check1 CHECK (((number IS NULL) OR ((started_at IS NOT NULL) AND (duration_us IS NOT NULL) AND (outcome IS NOT NULL) AND (detail IS NOT NULL) AND (node_id IS NOT NULL))))
    constraint attempts_check2 CHECK (((number IS NOT NULL) OR (ending IS NOT NULL) OR late))
    constraint attempts_check3 CHECK ((NOT (late AND (ending IS NOT NULL))))
    constraint attempts_check4 CHECK (((ending IS NULL) = (ended_at IS NULL)))
    constraint attempts_check5 CHECK (
CASE ending
    WHEN 'delivered'::text THEN ((reason IS NULL) AND (number IS NOT NULL) AND (outcome = 'success'::text))
    WHEN 'dead_letter'::text THEN (reason IS NOT NULL)
    WHEN 'cancelled'::text THEN (reason = ANY (ARRAY['requested'::text, 'destination_deleted'::text]))
    ELSE ((ending IS NULL) AND (reason IS NULL))
END)
    constraint attempts_default_pkey PRIMARY KEY (delivery_id, attempt_id)
    constraint attempts_spent_check CHECK ((spent >= 0))
    index attempts_default_account_id_delivery_id_idx USING btree (account_id, delivery_id) WHERE (ending IS NOT NULL)
    index attempts_default_account_id_delivery_id_idx1 USING btree (account_id, delivery_id) WHERE ((ending = 'dead_letter'::text) AND (NOT late))
    index attempts_default_account_id_destination_id_reason_http_stat_idx USING btree (account_id, destination_id, reason, http_status NULLS FIRST, delivery_id) WHERE (ending = 'dead_letter'::text)
    index attempts_default_attempt_id_idx USING brin (attempt_id) WITH (pages_per_range='16')
    index attempts_default_destination_id_delivery_id_idx USING btree (destination_id, delivery_id)
    index attempts_default_event_id_idx USING btree (event_id) WHERE (ending IS NOT NULL)

table audit_chains
    account_id uuid not null
    number bigint not null
    hash bytea not null
    forgotten_number bigint not null
    forgotten_hash bytea not null
    constraint audit_chains_pkey PRIMARY KEY (account_id)

table audit_entries
    account_id uuid not null
    number bigint not null
    id uuid not null
    at bigint not null
    actor text not null
    key_id uuid
    action text not null
    object_id text
    client text
    request_id uuid
    difference text
    count bigint
    hash bytea not null
    constraint audit_entries_pkey PRIMARY KEY (account_id, number)
    index audit_entries_by_id USING btree (id)
    index audit_entries_of_account USING btree (account_id, id)

table chores
    name text not null
    node_id uuid not null
    term bigint not null
    expires_at bigint not null
    constraint chores_pkey PRIMARY KEY (name)

table dead_letter_counts
    account_id uuid not null
    destination_id uuid not null
    reason text not null
    http_status smallint not null
    day integer not null
    count bigint not null
    oldest uuid not null
    newest uuid not null
    outcome text not null default ''::text
    constraint dead_letter_counts_count_check CHECK ((count >= 0))
    constraint dead_letter_counts_pkey PRIMARY KEY (account_id, destination_id, reason, http_status, outcome, day)
    index dead_letter_counts_by_day USING btree (day)
    with fillfactor=70, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_scale_factor=0.05

table dead_letter_minutes
    minute bigint not null
    destination_id uuid not null
    reason text not null
    http_status smallint not null
    account_id uuid not null
    count bigint not null
    constraint dead_letter_minutes_pkey PRIMARY KEY (minute, destination_id, reason, http_status)

table destinations
    id uuid not null
    account_id uuid not null
    uid text
    shard smallint not null
    version bigint not null
    created_at bigint not null
    paused_at bigint
    resumed_at bigint
    disabled_at bigint
    disabled_reason text
    deleted_at bigint
    doc text not null
    probed_at bigint
    constraint destinations_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
    constraint destinations_check CHECK (((disabled_at IS NULL) = (disabled_reason IS NULL)))
    constraint destinations_disabled_reason_check CHECK ((disabled_reason = ANY (ARRAY['requested'::text, 'gone'::text])))
    constraint destinations_pkey PRIMARY KEY (id)
    constraint destinations_shard_check CHECK (((shard >= 0) AND (shard <= 1023)))
    index destinations_by_version USING btree (account_id, version)
    index destinations_of_account USING btree (account_id, id DESC)
    index destinations_uid USING btree (account_id, uid) WHERE (deleted_at IS NULL)

table erasures
    account_id uuid not null
    requested_at bigint not null
    phase text not null
    erased_rows bigint not null default 0
    finished_at bigint
    constraint erasures_erased_rows_check CHECK ((erased_rows >= 0))
    constraint erasures_pkey PRIMARY KEY (account_id)
    index erasures_open USING btree (account_id) WHERE (finished_at IS NULL)

table event_tags
    account_id uuid not null
    tag text not null
    event_id uuid not null
    constraint event_tags_pkey PRIMARY KEY (account_id, tag, event_id)
    partition by RANGE (event_id)

table event_tags_default
    account_id uuid not null
    tag text not null
    event_id uuid not null
    constraint event_tags_default_pkey PRIMARY KEY (account_id, tag, event_id)

table events
    id uuid not null
    account_id uuid not null
    source_id uuid
    type text not null
    idempotency_key text
    content_type text not null
    headers text not null
    payload bytea not null storage m
    ordering_key text
    metadata text not null
    received_at bigint not null
    deliver_at bigint
    deliveries integer
    size_bytes integer not null
    payload_crc integer
    other_routes bytea
    tags text
    payload_erased_at bigint
    sealed_headers bytea
    constraint events_deliveries_check CHECK ((deliveries >= 0))
    constraint events_pkey PRIMARY KEY (id)
    constraint events_size_bytes_check CHECK ((size_bytes >= 0))
    index events_by_account USING btree (account_id, id)
    partition by RANGE (id)

table events_default
    id uuid not null
    account_id uuid not null
    source_id uuid
    type text not null
    idempotency_key text
    content_type text not null
    headers text not null
    payload bytea not null storage m
    ordering_key text
    metadata text not null
    received_at bigint not null
    deliver_at bigint
    deliveries integer
    size_bytes integer not null
    payload_crc integer
    other_routes bytea
    tags text
    payload_erased_at bigint
    sealed_headers bytea
    constraint events_default_pkey PRIMARY KEY (id)
    constraint events_deliveries_check CHECK ((deliveries >= 0))
    constraint events_size_bytes_check CHECK ((size_bytes >= 0))
    index events_default_account_id_id_idx USING btree (account_id, id)
    with toast_tuple_target=8160

table expanding_events
    event_id uuid not null
    account_id uuid not null
    account_version bigint not null
    cursor uuid
    deliveries integer not null
    inline_destinations uuid[] not null default '{}'::uuid[]
    other_routes bytea
    created_at bigint not null
    constraint expanding_events_deliveries_check CHECK ((deliveries >= 0))
    constraint expanding_events_pkey PRIMARY KEY (event_id)

table expansions
    event_id uuid not null
    account_id uuid not null
    cursor uuid
    deliveries integer not null
    created_at bigint not null
    account_version bigint not null default 0
    inline_routes uuid[] not null default '{}'::uuid[]
    constraint expansions_deliveries_check CHECK ((deliveries >= 0))
    constraint expansions_pkey PRIMARY KEY (event_id)

table gates
    destination_id uuid not null
    doc text not null
    updated_at bigint not null
    constraint gates_pkey PRIMARY KEY (destination_id)

table holds
    destination_id uuid not null
    since bigint not null
    reason text not null
    until bigint
    detail text not null
    step integer
    ended_at bigint
    changed_at bigint not null default 0
    constraint holds_pkey PRIMARY KEY (destination_id, since, reason)
    index holds_changed USING btree (changed_at, destination_id)
    index holds_ended USING btree (ended_at) WHERE (ended_at IS NOT NULL)

table idempotency
    scope uuid not null
    key_hash bytea not null
    body_hash bytea not null
    event_id uuid not null
    deliveries integer
    created_at bigint not null
    constraint idempotency_pkey PRIMARY KEY (scope, key_hash)
    index idempotency_by_age USING btree (created_at)

table lane_rollups
    account_id uuid not null
    destination_id uuid not null
    span text not null
    starts_at bigint not null
    node_id uuid not null
    doc text not null
    constraint lane_rollups_pkey PRIMARY KEY (account_id, destination_id, span, starts_at, node_id)
    constraint lane_rollups_span_check CHECK ((span = ANY (ARRAY['minute'::text, 'hour'::text, 'day'::text])))
    index lane_rollups_by_age USING btree (span, starts_at, account_id, destination_id, node_id)
    with fillfactor=70

table lanes
    destination_id uuid not null
    node_id uuid not null
    doc text not null
    updated_at bigint not null
    constraint lanes_pkey PRIMARY KEY (destination_id)

table nodes
    id uuid not null
    label text not null
    proof text not null
    version text not null
    expires_at timestamp with time zone not null
    role text not null default 'all'::text
    address text
    joined_at timestamp with time zone not null default now()
    master_keys text not null default ''::text
    tables_version bigint not null default 0
    constraint nodes_pkey PRIMARY KEY (id)
    constraint nodes_role_check CHECK ((role = ANY (ARRAY['all'::text, 'api'::text, 'worker'::text])))

table operational_notes
    id uuid not null
    account_id uuid not null
    about_account_id uuid not null
    destination_id uuid
    kind text not null
    data text not null
    constraint operational_notes_pkey PRIMARY KEY (id, account_id)

table payload_erasures
    event_id uuid not null
    account_id uuid not null
    erased_at bigint not null
    constraint payload_erasures_pkey PRIMARY KEY (event_id)

table portal_links
    id uuid not null
    hash bytea not null
    account_id uuid not null
    maker text not null
    maker_id uuid not null
    read_only boolean not null
    created_at bigint not null
    expires_at bigint not null
    session_seconds integer not null
    opened_at bigint
    ends_at bigint not null
    constraint portal_links_pkey PRIMARY KEY (id)
    index portal_links_by_end USING btree (ends_at)
    index portal_links_by_hash USING btree (hash)
    index portal_links_by_maker USING btree (maker_id)
    index portal_links_of_account USING btree (account_id, id)

table queue
    shard smallint not null
    destination_id uuid not null
    track bigint not null
    rank bigint not null
    delivery_id uuid not null
    account_id uuid not null
    event_id uuid not null
    route_id uuid not null
    replay_id uuid
    origin uuid not null
    due_at bigint not null
    attempts integer not null
    spent integer not null
    tls_errors integer not null
    last_outcome text
    last_http_status smallint
    created_at bigint not null
    available_at bigint not null
    payload_bytes integer not null
    sequence bigint
    tie uuid not null default delivery_id
    constraint queue_account_id_delivery_id_key UNIQUE (account_id, delivery_id)
    constraint queue_attempts_check CHECK ((attempts >= 0))
    constraint queue_check CHECK (((attempts >= spent) AND (attempts >= tls_errors)))
    constraint queue_check1 CHECK (((attempts = 0) = (last_outcome IS NULL)))
    constraint queue_payload_bytes_check CHECK ((payload_bytes >= 0))
    constraint queue_pkey PRIMARY KEY (shard, destination_id, track, rank, tie)
    constraint queue_spent_check CHECK ((spent >= 0))
    constraint queue_tls_errors_check CHECK ((tls_errors >= 0))
    index queue_by_event USING btree (event_id)
    with fillfactor=90, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.05

table refused_requests
    source_id uuid not null
    at bigint not null
    account_id uuid not null
    doc text not null
    body bytea not null
    constraint refused_requests_pkey PRIMARY KEY (source_id, at)
    index refused_requests_of_account USING btree (account_id)

table replay_counts
    replay_id uuid not null
    node_id uuid not null
    delivered bigint not null
    dead_letter bigint not null
    constraint replay_counts_pkey PRIMARY KEY (replay_id, node_id)

table replayed
    replay_id uuid not null
    origin uuid not null
    delivery_id uuid not null
    constraint replayed_pkey PRIMARY KEY (replay_id, origin)
    index replayed_delivery USING btree (replay_id, delivery_id)

table replays
    id uuid not null
    account_id uuid not null
    status text not null
    rate integer not null
    matched bigint not null
    matched_exact boolean not null
    cursor uuid
    created bigint not null default 0
    skipped bigint not null default 0
    held_by uuid
    held_until bigint
    created_at bigint not null
    finished_at bigint
    key_hash bytea
    body_hash bytea
    doc text not null
    delivery_ids uuid[]
    cursor_destination uuid
    constraint replays_check CHECK (((key_hash IS NULL) = (body_hash IS NULL)))
    constraint replays_check1 CHECK (((held_by IS NULL) = (held_until IS NULL)))
    constraint replays_check2 CHECK (((finished_at IS NULL) = (status = ANY (ARRAY['running'::text, 'paused'::text, 'backfilling'::text, 'backfill_paused'::text]))))
    constraint replays_matched_check CHECK ((matched >= 0))
    constraint replays_pkey PRIMARY KEY (id)
    constraint replays_rate_check CHECK ((rate > 0))
    constraint replays_status_check CHECK ((status = ANY (ARRAY['running'::text, 'paused'::text, 'backfilling'::text, 'backfill_paused'::text, 'completed'::text, 'cancelled'::text])))
    index replays_key USING btree (account_id, key_hash) WHERE (key_hash IS NOT NULL)
    index replays_of_account USING btree (account_id, id DESC)
    index replays_open USING btree (id) WHERE (status = ANY (ARRAY['running'::text, 'backfilling'::text]))
    index replays_running USING btree (id) WHERE (status = 'running'::text)
    index replays_unfinished USING btree (account_id) WHERE (finished_at IS NULL)

table rollup_marks
    name text not null
    closed_at bigint not null
    constraint rollup_marks_pkey PRIMARY KEY (name)

table rollups
    account_id uuid not null
    destination_id uuid not null
    span text not null
    starts_at bigint not null
    doc text not null
    constraint rollups_pkey PRIMARY KEY (account_id, destination_id, span, starts_at)
    constraint rollups_span_check CHECK ((span = ANY (ARRAY['minute'::text, 'hour'::text, 'day'::text, 'fanout_minute'::text, 'fanout_hour'::text])))
    index rollups_by_age USING btree (span, starts_at)

table routes
    id uuid not null
    account_id uuid not null
    uid text
    source_id uuid
    destination_id uuid not null
    overrides boolean not null
    version bigint not null
    created_at bigint not null
    deleted_at bigint
    doc text not null
    constraint routes_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
    constraint routes_destination_id_fkey FOREIGN KEY (destination_id) REFERENCES destinations(id)
    constraint routes_pkey PRIMARY KEY (id)
    constraint routes_source_id_fkey FOREIGN KEY (source_id) REFERENCES sources(id)
    index routes_by_destination USING btree (destination_id) WHERE (deleted_at IS NULL)
    index routes_by_source USING btree (source_id) WHERE (deleted_at IS NULL)
    index routes_by_version USING btree (account_id, version)
    index routes_of_account USING btree (account_id, id DESC)
    index routes_to_destinations USING btree (account_id, destination_id, id) WHERE (deleted_at IS NULL)
    index routes_uid USING btree (account_id, uid) WHERE (deleted_at IS NULL)
    index routes_with_overrides USING btree (destination_id) WHERE overrides

table sequences
    destination_id uuid not null
    last bigint not null
    constraint sequences_last_check CHECK ((last > 0))
    constraint sequences_pkey PRIMARY KEY (destination_id)

table sessions
    id uuid not null
    hash bytea not null
    holder text not null
    holder_id uuid not null
    account_id uuid
    created_at bigint not null
    seen_at bigint not null
    expires_at bigint not null
    client text not null
    user_agent text
    constraint sessions_pkey PRIMARY KEY (id)
    index sessions_by_hash USING btree (hash)
    index sessions_by_seen_at USING btree (seen_at)
    index sessions_of_holder USING btree (holder_id, id)

table settings
    name text not null
    value bytea not null
    constraint settings_pkey PRIMARY KEY (name)

table settled_dead_letters
    delivery_id uuid not null
    account_id uuid not null
    resolved_at bigint not null
    delivered_by uuid
    dismissed_by text
    note text
    constraint settled_dead_letters_check CHECK (((delivered_by IS NULL) <> (dismissed_by IS NULL)))
    constraint settled_dead_letters_check1 CHECK (((note IS NULL) OR (dismissed_by IS NOT NULL)))
    constraint settled_dead_letters_pkey PRIMARY KEY (delivery_id)

table shards
    shard smallint not null
    node_id uuid
    epoch bigint not null default 0
    wanted_by uuid
    constraint shards_pkey PRIMARY KEY (shard)
    constraint shards_shard_check CHECK (((shard >= 0) AND (shard <= 1023)))

table sign_in_links
    hash bytea not null
    purpose text not null
    key_id uuid
    expires_at bigint not null
    constraint sign_in_links_pkey PRIMARY KEY (hash)

table sources
    id uuid not null
    account_id uuid not null
    uid text
    token_hash bytea not null
    version bigint not null
    created_at bigint not null
    deleted_at bigint
    doc text not null
    constraint sources_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
    constraint sources_pkey PRIMARY KEY (id)
    constraint sources_token_hash_key UNIQUE (token_hash)
    index sources_of_account USING btree (account_id, id DESC)
    index sources_uid USING btree (account_id, uid) WHERE (deleted_at IS NULL)

table test_sends
    id uuid not null
    shard smallint not null
    doc text not null
    asked_at bigint not null
    taken boolean not null default false
    answer text
    constraint test_sends_pkey PRIMARY KEY (id)

table told_accounts
    account_id uuid not null
    whole_installation boolean not null default false
    constraint told_accounts_pkey PRIMARY KEY (account_id)
    index told_accounts_operators USING btree (account_id) WHERE whole_installation

table users
    id uuid not null
    name text not null
    password text not null
    role text not null
    accounts text not null
    created_at bigint not null
    updated_at bigint not null
    constraint users_pkey PRIMARY KEY (id)
    index users_by_user_name USING btree (name)

table wakes
    shard smallint not null
    round bigint not null
    constraint wakes_pkey PRIMARY KEY (shard)
    constraint wakes_shard_check CHECK (((shard >= '-2'::integer) AND (shard <= 1023)))
