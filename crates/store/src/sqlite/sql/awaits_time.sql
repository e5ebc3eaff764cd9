-- :track of what waits for its time
select destination_id
from queue
where account_id = :account_id
  and delivery_id = :delivery_id
  and track = :track
  and due_at <= :now
