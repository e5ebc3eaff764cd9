select account_id, destination_id, minute, reason, http_status, count
from dead_letter_minutes
where (minute, destination_id) in (
  select distinct minute, destination_id
  from dead_letter_minutes
  where minute < :before
  order by minute, destination_id
  limit :limit
)
