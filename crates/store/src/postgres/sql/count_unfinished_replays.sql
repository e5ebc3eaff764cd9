select count(*) as count
from replays
where account_id = :account_id and finished_at is null
