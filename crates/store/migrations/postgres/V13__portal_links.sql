-- Links by which somebody sees one account. Of the token only a hash is kept. A session that was begun by one is held by it,
-- and ends with it.
create table portal_links (
    id              uuid    primary key,
    hash            bytea   not null,
    account_id      uuid    not null,
    maker           text    not null,
    maker_id        uuid    not null,
    read_only       boolean not null,
    created_at      bigint  not null,
    expires_at      bigint  not null,
    session_seconds integer not null,
    opened_at       bigint,
    -- When nothing can come of it any more.
    ends_at         bigint  not null
);
create unique index portal_links_by_hash on portal_links (hash);
create index portal_links_of_account on portal_links (account_id, id);
create index portal_links_by_maker on portal_links (maker_id);
create index portal_links_by_end on portal_links (ends_at);
