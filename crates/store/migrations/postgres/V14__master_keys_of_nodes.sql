-- The names of the master keys that a node was started with, the active one first: `k2,k1`. Empty where the node is of a
-- version before.
alter table nodes add column master_keys text not null default '';
