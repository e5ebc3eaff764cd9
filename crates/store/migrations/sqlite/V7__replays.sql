-- Replays, and dead letters in groups. Nobody has written a replay before this.
drop table replays;

create table replays (
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
    delivery_ids blob,
    check ((key_hash is null) = (body_hash is null)),
    check ((held_by is null) = (held_until is null)),
    check ((finished_at is null) = (status in ('running', 'paused')))
);

create index replays_account on replays (account_id, id);
create index replays_running on replays (id) where status = 'running';
create index replays_unfinished on replays (account_id) where finished_at is null;
create unique index replays_key on replays (account_id, key_hash) where key_hash is not null;

-- What a replay has made of an origin: once, whatever happens.
create table replayed (
    replay_id blob not null,
    origin blob not null,
    delivery_id blob not null,
    primary key (replay_id, origin)
) without rowid;

create unique index replayed_delivery on replayed (replay_id, delivery_id);

-- A dead letter without an attempt has the status of the last one before it, as its group does.
update attempts
set http_status = (
    select l.http_status
    from attempts l
    where l.delivery_id = attempts.delivery_id
      and l.number is not null
      and not l.late
    order by l.number desc
    limit 1
)
where number is null;

-- An account's dead letters: by age, and by what they have in common.
drop index attempts_dead_letter;
create index attempts_dead_letter on attempts (account_id, delivery_id) where ending = 'dead_letter';
-- The ending stands there so that nobody looks it up in the table.
create index attempts_dead_letter_group
    on attempts (account_id, destination_id, reason, http_status, delivery_id, ending)
    where ending = 'dead_letter';

-- Replays are not an event's fan-out: told apart in the index alone.
drop index attempts_ending_event;
create index attempts_ending_event on attempts (event_id, delivery_id, ending, ended_at, replay_id)
    where ending is not null;
drop index queue_event;
create index queue_event on queue (event_id, delivery_id, replay_id);
