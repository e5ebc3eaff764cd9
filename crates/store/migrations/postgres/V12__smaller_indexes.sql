-- Ids grow: an index that has them upwards fills its pages, one that has them downwards splits each in the middle and
-- leaves half of it empty. Read backwards it gives the same order.
create index events_by_account on events (account_id, id);
create index attempts_ended_by_account on attempts (account_id, delivery_id) where ending is not null;
-- Without the attempt: few deliveries have several, and those few are sorted when they are read.
create index attempts_by_destination on attempts (destination_id, delivery_id);
-- Last, because whoever reads waits for it. Every statement of the version before finds its order in the new ones.
drop index events_of_account;
drop index attempts_ended_of_account;
drop index attempts_of_destination;
