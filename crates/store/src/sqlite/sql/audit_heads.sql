-- :shard, :destination_id, :track where to look from
-- Asked once per track: one step down the key each, however much waits in it. The comparison names a whole prefix of
-- the key, with the lowest rank there is: SQLite would walk to a shorter one.
select shard, destination_id, track, delivery_id, due_at, attempts
from queue
where (shard, destination_id, track, rank) >= (:shard, :destination_id, :track, -9223372036854775808)
order by shard, destination_id, track, rank, delivery_id
limit 1
