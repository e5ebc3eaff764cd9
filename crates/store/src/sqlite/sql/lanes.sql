-- ?1 ?2 the lane (shard, destination) behind which to look
-- Asked once per lane: one step down the key each, however much waits in the lanes.
select shard, destination_id, track, rank, delivery_id
from queue
where (shard, destination_id) > (?1, ?2)
order by shard, destination_id, track, rank, delivery_id
limit 1
