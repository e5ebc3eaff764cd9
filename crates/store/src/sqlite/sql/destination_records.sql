-- The columns beside the document are those of every destination; see catalog/documents.rs.
select account_id, shard, version, doc, paused_at, resumed_at, disabled_at, disabled_reason, probed_at, deleted_at
from destinations
where id = :id
  -- What belongs to an account that was deleted is as good as gone. One whose account is not there is damage, and told.
  and not exists (select 1 from accounts a where a.id = destinations.account_id and a.deleted_at is not null)
