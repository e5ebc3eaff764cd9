-- Sorted: two nodes that tell at once must not deadlock. Each shard counts its own rounds, so that none is overlooked.
insert into wakes (shard, round)
select told.shard, 1
from unnest(:shards) as told (shard)
order by told.shard
on conflict (shard) do update set round = wakes.round + 1
returning shard, round
