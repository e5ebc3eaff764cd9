-- Endings that lie in later days than their event: of replays, of large fan-outs, of those around midnight.
select a.delivery_id
from attempts a
where a.event_id >= :from_id and a.event_id < :below_id
  and a.ending is not null
  and a.delivery_id >= :below_id
limit :limit
