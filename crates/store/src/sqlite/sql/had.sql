-- The destinations that had an event, by anything that waits or has ended.
select destination_id
from queue
where event_id = :event_id
union all
select destination_id
from attempts
where event_id = :event_id
  and ending is not null
