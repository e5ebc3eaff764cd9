-- The last requests that a source did not believe, for its owner to see why. Of each source a handful is kept.
create table refused_requests (
    source_id  uuid   not null,
    at         bigint not null,
    account_id uuid   not null,
    doc        text   not null,
    body       bytea  not null,
    primary key (source_id, at)
);
create index refused_requests_of_account on refused_requests (account_id);
