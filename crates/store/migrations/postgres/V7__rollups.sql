-- Who does a chore that one node does at a time; whoever takes it over counts the term up.
create table chores (
    name       text   primary key,
    node_id    uuid   not null,
    term       bigint not null,
    expires_at bigint not null
);

-- Sums of a span of time. The nil id stands for the account as a whole.
drop table rollups;
create table rollups (
    account_id     uuid   not null,
    destination_id uuid   not null,
    span           text   not null check (span in ('minute', 'hour', 'day', 'fanout_minute', 'fanout_hour')),
    starts_at      bigint not null,
    doc            text   not null,
    primary key (account_id, destination_id, span, starts_at)
);
create index rollups_by_age on rollups (span, starts_at);

-- Up to when a span's rollups are written.
create table rollup_marks (
    name      text   primary key,
    closed_at bigint not null
);

-- Facts are appended about in the order in which their attempts began: a minute of them is a few pages of each day.
create index attempts_by_start on attempts using brin (attempt_id) with (pages_per_range = 16, autosummarize = on);
