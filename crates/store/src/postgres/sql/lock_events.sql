-- A statement that puts something of an event into the queue holds its row: that event is left out, or the statement
-- waits and finds it gone.
select e.id
from events e
where e.id = any(:event_ids)
order by e.id
for update skip locked
