-- The columns beside the document are those of every destination; see catalog/documents.rs.
select account_id, shard, version, doc, paused_at, resumed_at, disabled_at, disabled_reason, probed_at, deleted_at
from destinations
where id = :id
