-- :shard, :destination_id the lane behind which to look
-- Asked once per lane: one step down the key each, however much waits in the lanes. The comparison names the end of
-- the lane: SQLite takes `>` on a part of the key as `>=` and would walk over every row of the lane (1M rows: 130 ms).
select shard, destination_id, track, rank, delivery_id
from queue
where (shard, destination_id, track, rank) > (:shard, :destination_id, 9223372036854775807, 9223372036854775807)
order by shard, destination_id, track, rank, delivery_id
limit 1
