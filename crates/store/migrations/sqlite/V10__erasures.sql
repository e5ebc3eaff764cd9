-- Accounts that were deleted, and how far everything of theirs is erased. The account's own row stays, with nothing in it.
create table erasures (
    account_id blob not null primary key check (length(account_id) = 16),
    requested_at integer not null,
    -- What is being erased, or was last.
    phase text not null,
    erased_rows integer not null default 0 check (erased_rows >= 0),
    finished_at integer
) without rowid;
create index erasures_open on erasures (account_id) where finished_at is null;

-- The event stays, and what came of it; its payload and its headers are gone.
alter table events add column payload_erased_at integer;

-- Events whose payload was erased a moment ago: the kept answers of their deliveries are looked through once more, for the
-- word of a node that spoke up meanwhile.
create table payload_erasures (
    event_id blob not null primary key check (length(event_id) = 16),
    account_id blob not null,
    erased_at integer not null
) without rowid;
