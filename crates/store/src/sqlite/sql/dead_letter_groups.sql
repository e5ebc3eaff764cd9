-- ?1 account, ?2 destination, ?3 reason and ?4 HTTP status of the group before, ?5 groups
select destination_id, reason, nullif(http_status, 0), count
from dead_letter_counts
where account_id = ?1
  and (destination_id, reason, http_status) > (?2, ?3, ?4)
order by destination_id, reason, http_status
limit ?5
