-- Keys of platforms belong to no account either. A check cannot be changed: the table is made anew, with all that is in it.
alter table api_keys rename to api_keys_before;

create table api_keys (
    id blob not null primary key check (length(id) = 16),
    -- Null: a key of an operator or a platform.
    account_id blob,
    lookup text not null,
    hash blob not null,
    name text not null,
    kind text not null check (kind in ('account', 'ingest', 'operator', 'platform')),
    scopes text not null,
    source_id blob,
    rate_limit integer,
    expires_at integer,
    last_used_at integer,
    revoked_at integer,
    created_at integer not null,
    check ((kind in ('operator', 'platform')) = (account_id is null))
) without rowid;

insert into api_keys (id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at,
  revoked_at, created_at)
select id, account_id, lookup, hash, name, kind, scopes, source_id, rate_limit, expires_at, last_used_at, revoked_at,
  created_at
from api_keys_before;

-- Its indexes go with it: the names are free from here on.
drop table api_keys_before;

create unique index api_keys_lookup on api_keys (lookup);
create index api_keys_account on api_keys (account_id, id);
