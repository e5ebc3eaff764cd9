-- :destination_id, :reason, :http_status the group before
select destination_id, reason, nullif(http_status, 0), count
from dead_letter_counts
where account_id = :account_id
  and (destination_id, reason, http_status) > (:destination_id, :reason, :http_status)
order by destination_id, reason, http_status
limit :limit
