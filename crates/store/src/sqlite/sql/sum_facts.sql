-- Facts from the row :from on, in the order in which they were committed.
select rowid, attempt_id, account_id, destination_id, number is not null, outcome, http_status, duration_us, ending, reason,
  started_at, delivery_id
from attempts
where rowid >= :from
order by rowid
limit :limit
