-- :from, :below events
select account_id, count(*), coalesce(sum(deliveries), 0)
from events
where id >= :from
  and id < :below
group by account_id
