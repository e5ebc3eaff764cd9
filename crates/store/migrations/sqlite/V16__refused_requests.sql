-- The last requests that a source did not believe, for its owner to see why. Of each source a handful is kept.
create table refused_requests (
    source_id blob not null,
    at integer not null,
    account_id blob not null,
    doc text not null,
    body blob not null,
    primary key (source_id, at)
) without rowid;

create index refused_requests_account on refused_requests (account_id);
