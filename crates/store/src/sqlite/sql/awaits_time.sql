-- ?1 account, ?2 delivery, ?3 the track of what waits for its time, ?4 now
select destination_id
from queue
where account_id = ?1
  and delivery_id = ?2
  and track = ?3
  and due_at <= ?4
