-- :from, :below events
select id
from events
where account_id = :account_id
  and id >= :from
  and id < :below
order by id
limit :limit
