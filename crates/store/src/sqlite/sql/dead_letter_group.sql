-- The first dead letter behind a group, read from the index alone. Followed by where: the next status, reason or
-- destination. ?1 account, ?2 destination, ?3 reason, ?4 HTTP status
select destination_id, reason, http_status, delivery_id
from attempts
where account_id = ?1
  and ending = 'dead_letter'
