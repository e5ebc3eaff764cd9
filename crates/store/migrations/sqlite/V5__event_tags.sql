-- What an event is found by, as JSON; null where there are none. Behind the payload, as `other_routes` is.
alter table events add column tags text;

-- The same by tag: one row a tag.
create table event_tags (
    account_id blob not null,
    tag text not null,
    event_id blob not null,
    primary key (account_id, tag, event_id)
) without rowid;
