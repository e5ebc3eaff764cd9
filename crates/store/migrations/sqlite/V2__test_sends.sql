-- Tests of destinations that one node was asked for and another makes, which owns the lane. Here none is.
create table test_sends (
    id blob not null primary key,
    shard integer not null,
    doc text not null,
    asked_at integer not null,
    taken integer not null default 0,
    answer text
) without rowid;
