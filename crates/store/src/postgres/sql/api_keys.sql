-- Without an account: the keys of operators and platforms.
select id, doc, last_used_at, revoked_at
from api_keys
where (account_id = :account_id or (:account_id is null and account_id is null))
  and id < :before_id
order by id desc
limit :limit
