-- Null while an expansion makes them.
alter table events alter column deliveries drop not null;
alter table idempotency alter column deliveries drop not null;

-- An expansion that is done is deleted: its event knows the number of its deliveries from then on.
alter table expansions
    drop column ended_at,
    -- The account's version when the event was committed: a route that has not changed since was there.
    add column account_version bigint not null default 0;
