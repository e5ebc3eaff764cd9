-- Keys of an account and of its sources, in the order in which they came: nothing finds them by their scope.
select i.scope, i.key_hash, i.number
from idempotency i
where i.number >= :from
  and i.number < :below
  and (i.scope = :account_id
    or exists (select 1 from sources s where s.id = i.scope and s.account_id = :account_id))
order by i.number
limit :limit
