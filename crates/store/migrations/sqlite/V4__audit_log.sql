-- The audit log: what was done, by whom, from where. An account's entries are a chain, numbered without gaps, each with
-- a hash over itself and the hash before it; the chain of account 0 is the installation's own.
create table audit_chains (
    account_id blob not null primary key check (length(account_id) = 16),
    -- The last entry.
    number integer not null,
    hash blob not null,
    -- The last that was forgotten: from here the rest is checked.
    forgotten_number integer not null,
    forgotten_hash blob not null
) without rowid;

create table audit_entries (
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

create index audit_entries_by_id on audit_entries (id);
create index audit_entries_of_account on audit_entries (account_id, id);
