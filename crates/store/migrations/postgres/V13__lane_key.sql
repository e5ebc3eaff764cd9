-- A delivery's id stands in one index only, the one it is looked up by. A planner that takes the queue for empty (it was,
-- when statistics were gathered) finds any index that has the id as good as another, and would as soon walk through the
-- lanes' key to its last column for each delivery: seconds, in a full queue. So the lanes are told apart at equal ranks by
-- a copy. The table is written anew for it.
alter table queue
    drop constraint queue_pkey,
    add column tie uuid generated always as (delivery_id) stored,
    add primary key (shard, destination_id, track, rank, tie);
