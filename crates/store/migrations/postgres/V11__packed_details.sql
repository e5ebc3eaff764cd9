-- A detail, packed; then `detail` is empty, and a node of the version before shows none. Nothing is rewritten for it.
alter table attempts add column detail_packed bytea;
