-- Many nodes: what each is there for, who would like which shard, and what one tells the others. One process has this
-- file to itself; the columns are the same all the same.

alter table nodes add column role text not null default 'all' check (role in ('all', 'api', 'worker'));
-- Where it listens, for people.
alter table nodes add column address text;

-- A node that would like to have it; its owner drains it.
alter table shards add column wanted_by blob;

-- "Probe now", asked on any node, seen by the owner of the lane.
alter table destinations add column probed_at integer;
create index destinations_version on destinations (account_id, version);
