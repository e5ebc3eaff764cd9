select delivery_id
from attempts
where event_id = :event_id
  and ending is not null
limit :limit
