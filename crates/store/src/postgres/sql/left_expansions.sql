-- The oldest that a node of the version before has begun.
select event_id, cursor
from expansions
order by event_id
limit 1
