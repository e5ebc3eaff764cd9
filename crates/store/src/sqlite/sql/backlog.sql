-- ?1 shard, ?2 destination, ?3 how far to count
select count(*), min(created_at)
from (
  select created_at
  from queue
  where shard = ?1
    and destination_id = ?2
  order by track, rank, delivery_id
  limit ?3
)
