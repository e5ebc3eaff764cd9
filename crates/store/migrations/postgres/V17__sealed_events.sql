-- The headers of an event whose payload is sealed by a data key of its account, sealed too: `headers` is empty then. Null
-- where neither is. What a node of the version before reads of one does not fit its checksum, so it sends none.
alter table events add column sealed_headers bytea;

-- The version of the tables that a node was made for, by which it is known what it reads. 0 where the node is of a version
-- before.
alter table nodes add column tables_version bigint not null default 0;
