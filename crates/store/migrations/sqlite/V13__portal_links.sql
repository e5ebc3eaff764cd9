-- Links by which somebody sees one account. Of the token only a hash is kept. A session that was begun by one is held by it,
-- and ends with it.
create table portal_links (
    id blob not null primary key check (length(id) = 16),
    hash blob not null,
    account_id blob not null,
    maker text not null,
    maker_id blob not null,
    read_only integer not null,
    created_at integer not null,
    expires_at integer not null,
    session_seconds integer not null,
    opened_at integer,
    -- When nothing can come of it any more.
    ends_at integer not null
) without rowid;

create unique index portal_links_by_hash on portal_links (hash);
create index portal_links_of_account on portal_links (account_id, id);
create index portal_links_by_maker on portal_links (maker_id);
create index portal_links_by_end on portal_links (ends_at);
