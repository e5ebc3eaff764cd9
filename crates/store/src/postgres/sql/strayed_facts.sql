-- $1 events from here on, $2 and below this, $3 at most so many
-- Endings that lie in later days than their event: of replays, of large fan-outs, of those around midnight.
select a.delivery_id
from attempts a
where a.event_id >= $1 and a.event_id < $2
  and a.ending is not null
  and a.delivery_id >= $2
limit $3
