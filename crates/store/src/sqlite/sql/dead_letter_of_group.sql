-- A dead letter of a group, read from the index alone. Followed by which.
select delivery_id
from attempts
where account_id = :account_id
  and ending = 'dead_letter'
  and destination_id = :destination_id
  and reason = :reason
  and http_status is :http_status
