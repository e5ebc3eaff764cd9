-- Accounts that were deleted, and how far everything of theirs is erased. The account's own row stays, with nothing in it:
-- a node of the version before reads it as an account without a name that has nothing.
alter table accounts add column deleted_at bigint;

create table erasures (
    account_id   uuid   primary key,
    requested_at bigint not null,
    -- What is being erased, or was last.
    phase        text   not null,
    erased_rows  bigint not null default 0 check (erased_rows >= 0),
    finished_at  bigint
);
create index erasures_open on erasures (account_id) where finished_at is null;

-- The event stays, and what came of it; its payload and its headers are gone.
alter table events add column payload_erased_at bigint;

-- Its answer was erased: the row was written again by that, and is nothing new for those who follow by transactions.
alter table attempts add column answer_erased boolean;

-- Events whose payload was erased a moment ago: the kept answers of their deliveries are looked through once more, for the
-- word of a node that spoke up meanwhile.
create table payload_erasures (
    event_id   uuid   primary key,
    account_id uuid   not null,
    erased_at  bigint not null
);
