-- Sessions of the dashboard. Of an id only a hash is kept.
create table sessions (
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

create unique index sessions_by_hash on sessions (hash);
create index sessions_of_holder on sessions (holder_id, id);
create index sessions_by_seen_at on sessions (seen_at);

-- Links that can be opened once. Opening one deletes its row.
create table sign_in_links (
    hash blob not null primary key,
    purpose text not null,
    key_id blob,
    expires_at integer not null
) without rowid;

-- Who signs in with a password, of which an Argon2id hash is kept.
create table users (
    id blob not null primary key check (length(id) = 16),
    name text not null,
    password text not null,
    role text not null,
    -- Ids, as JSON.
    accounts text not null,
    created_at integer not null,
    updated_at integer not null
) without rowid;

create unique index users_by_user_name on users (name);
