-- $1 events
-- Whoever puts something of an event into the queue holds its row: that one is left out, or waits and finds it gone.
select e.id
from events e
where e.id = any($1)
order by e.id
for update skip locked
