-- :from the first track to look at
-- Asked once per track: one step down the key each, however much waits in them.
select track, rank, delivery_id, due_at
from queue
where shard = :shard
  and destination_id = :destination_id
  and track >= :from
order by track, rank, delivery_id
limit 1
