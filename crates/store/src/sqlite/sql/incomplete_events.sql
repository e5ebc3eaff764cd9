-- One step: the next event below :before of which something waits or is yet to be made.
select max(id)
from (
  select * from (select event_id as id from queue where event_id < :before order by event_id desc limit 1)
  union all
  select * from (select event_id as id from expanding_events where event_id < :before order by event_id desc limit 1)
)
