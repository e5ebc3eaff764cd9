-- ?1 shard, ?2 destination, ?3 the first track to look at
-- Asked once per track: one step down the key each, however much waits in them.
select track, rank, delivery_id, due_at
from queue
where shard = ?1
  and destination_id = ?2
  and track >= ?3
order by track, rank, delivery_id
limit 1
