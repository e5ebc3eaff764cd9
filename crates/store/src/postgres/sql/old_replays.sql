select id
from replays
where account_id = :account_id
  and id >= :from_replay_id and id < :below_replay_id
  and finished_at < :finished_before
order by id
limit :limit
