-- A dead letter of a group, read from the index alone. Followed by which.
-- ?1 account, ?2 destination, ?3 reason, ?4 HTTP status
select delivery_id
from attempts
where account_id = ?1
  and ending = 'dead_letter'
  and destination_id = ?2
  and reason = ?3
  and http_status is ?4
