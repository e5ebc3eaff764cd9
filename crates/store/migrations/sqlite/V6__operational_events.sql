-- Accounts that are told what Posthaste tells of itself: those that have, or had, a route for it. Nothing is noted for
-- any other.
create table told_accounts (
    account_id blob not null primary key check (length(account_id) = 16),
    -- The operator's: it is told of every account.
    whole_installation integer not null default 0
) without rowid;
create index told_accounts_operators on told_accounts (account_id) where whole_installation;

insert into told_accounts (account_id)
select distinct account_id
from routes
where deleted_at is null and doc like '%"posthaste%';

-- What is to be told and is no event yet: one row for each account that is told it.
create table operational_notes (
    id blob not null,
    account_id blob not null,
    about_account_id blob not null,
    destination_id blob,
    kind text not null,
    data text not null,
    primary key (id, account_id)
) without rowid;

-- Dead letters of minutes that are not summed up yet, of accounts that are told of them. No status is 0.
create table dead_letter_minutes (
    minute integer not null,
    destination_id blob not null,
    reason text not null,
    http_status integer not null,
    account_id blob not null,
    count integer not null,
    primary key (minute, destination_id, reason, http_status)
) without rowid;
