-- Sums of a span of time. Sixteen zero bytes stand for the account as a whole.
drop table rollups;
create table rollups (
    account_id blob not null,
    destination_id blob not null,
    span text not null check (span in ('minute', 'hour', 'day', 'fanout_minute', 'fanout_hour')),
    starts_at integer not null,
    doc text not null,
    primary key (account_id, destination_id, span, starts_at)
) without rowid;

create index rollups_age on rollups (span, starts_at);

-- Up to when a span's rollups are written.
create table rollup_marks (
    name text not null primary key,
    closed_at integer not null
) without rowid;
