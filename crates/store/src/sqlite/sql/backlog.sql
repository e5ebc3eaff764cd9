-- :limit how far to count
select count(*), min(created_at)
from (
  select created_at
  from queue
  where shard = :shard
    and destination_id = :destination_id
  order by track, rank, delivery_id
  limit :limit
)
