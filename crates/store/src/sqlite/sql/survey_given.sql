-- Waiting or ended.
select destination_id
from queue
where account_id = :account_id
  and delivery_id = :delivery_id
union all
select destination_id
from attempts
where delivery_id = :delivery_id
  and account_id = :account_id
  and ending is not null
limit 1
