-- :from, :below replays, ended before :before
select id
from replays
where account_id = :account_id
  and id >= :from
  and id < :below
  and finished_at < :before
order by id
limit :limit
