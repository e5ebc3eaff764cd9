-- What an event is found by, as JSON; null where there are none.
alter table events add column tags text;

-- The same by tag, in days as the events are: one row a tag. Nodes of the version before know nothing of it; what they have
-- no day for goes to the default partition, and what they leave of a day that they drop is dropped later.
create table event_tags (
    account_id uuid not null,
    tag        text collate "C" not null,
    event_id   uuid not null,
    primary key (account_id, tag, event_id)
) partition by range (event_id);
create table event_tags_default partition of event_tags default;
