-- The audit log: what was done, by whom, from where. An account's entries are a chain, numbered without gaps, each with
-- a hash over itself and the hash before it; the chain of account 0 is the installation's own.
create table audit_chains (
    account_id       uuid   primary key,
    -- The last entry. The row is the lock under which the chain grows.
    number           bigint not null,
    hash             bytea  not null,
    -- The last that was forgotten: from here the rest is checked.
    forgotten_number bigint not null,
    forgotten_hash   bytea  not null
);

create table audit_entries (
    account_id uuid    not null,
    number     bigint  not null,
    id         uuid    not null,
    at         bigint  not null,
    actor      text    not null,
    key_id     uuid,
    action     text    not null,
    object_id  text,
    client     text,
    request_id uuid,
    -- As it is hashed, byte for byte.
    difference text,
    count      bigint,
    hash       bytea   not null,
    primary key (account_id, number)
);
create index audit_entries_by_id on audit_entries (id);
create index audit_entries_of_account on audit_entries (account_id, id);
