-- Many nodes: what each is there for, who would like which shard, and what one tells the others.

alter table nodes
    add column role      text        not null default 'all' check (role in ('all', 'api', 'worker')),
    add column address   text,                             -- where it listens, for people
    add column joined_at timestamptz not null default now();

alter table shards
    add column wanted_by uuid;                             -- a node that would like to have it; its owner drains it

-- "Probe now", asked on any node, seen by the owner of the lane.
alter table destinations
    add column probed_at bigint;
create index destinations_by_version on destinations (account_id, version);

-- Besides the shards: -1 for membership and ownership, -2 for the last time somebody read this table.
alter table wakes
    drop constraint wakes_shard_check,
    add constraint wakes_shard_check check (shard between -2 and 1023);
