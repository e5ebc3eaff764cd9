-- Sessions of the dashboard: every node reads them, so all agree on who is signed in. Of an id only a hash is kept.
create table sessions (
    id         uuid   primary key,
    hash       bytea  not null,
    holder     text   not null,
    holder_id  uuid   not null,
    account_id uuid,
    created_at bigint not null,
    seen_at    bigint not null,
    expires_at bigint not null,
    client     text   not null,
    user_agent text
);
create unique index sessions_by_hash on sessions (hash);
create index sessions_of_holder on sessions (holder_id, id);
create index sessions_by_seen_at on sessions (seen_at);

-- Links that can be opened once. Opening one deletes its row.
create table sign_in_links (
    hash       bytea  primary key,
    purpose    text   not null,
    key_id     uuid,
    expires_at bigint not null
);

-- Who signs in with a password, of which an Argon2id hash is kept.
create table users (
    id         uuid   primary key,
    name       text   not null,
    password   text   not null,
    role       text   not null,
    -- Ids, as JSON.
    accounts   text   not null,
    created_at bigint not null,
    updated_at bigint not null
);
create unique index users_by_user_name on users (name);
