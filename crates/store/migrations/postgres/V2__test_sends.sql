-- Tests of destinations that one node was asked for and another makes, which owns the lane. Empty but for seconds.
create table test_sends (
    id       uuid     primary key,
    shard    smallint not null,
    doc      text     not null,
    asked_at bigint   not null,
    taken    boolean  not null default false,
    answer   text
);
