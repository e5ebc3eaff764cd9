select account_id
from destinations
where id = :id
  and disabled_at is null
  and paused_at is null
  and deleted_at is null
