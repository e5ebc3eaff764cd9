-- :limit how many are counted at most; below zero: all
-- Replays are not its fan-out, what a backfill made is. Only of those the row is looked up; else the index has all.
select count(*)
from (
  select 1
  from queue q
  where q.event_id = :event_id
    and (q.replay_id is null
      or exists (
        select 1
        from queue o
        where o.shard = q.shard and o.destination_id = q.destination_id and o.track = q.track and o.rank = q.rank
          and o.delivery_id = q.delivery_id and o.origin = o.delivery_id))
  limit :limit
)
