select doc, version, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at
from destinations
where account_id = :account_id and id < :before_id and deleted_at is null
order by id desc
limit :limit
