-- Behind the number :after.
select scope, key_hash, number
from idempotency
where number > :after
order by number
limit :limit
