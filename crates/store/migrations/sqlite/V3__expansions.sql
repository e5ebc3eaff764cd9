-- An expansion that is done is deleted: its event knows the number of its deliveries from then on.
drop index expansions_open;
alter table expansions drop column ended_at;
-- The account's version when the event was committed: a route that has not changed since was there.
alter table expansions add column account_version integer not null default 0;
