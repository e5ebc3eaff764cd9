-- Of the oldest that wait: an account may have millions.
select min(due_at)
from (
  select due_at
  from queue indexed by queue_delivery
  where account_id = :account_id
  order by delivery_id
  limit :limit
)
where due_at <= :now
