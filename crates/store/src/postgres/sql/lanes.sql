-- :next_shards has for every shard the first one from it on that is asked for (1024: none).
-- A loose scan: from each lane's first row straight to the next lane's, one descent of the key per lane. Having come to
-- a shard that is not asked for, it leaps to the end of the one before the next that is.
with recursive heads as (
    (
        select q.shard, q.destination_id, q.track, q.rank, q.tie as delivery_id
        from queue q
        where (q.shard, q.destination_id) > (:after_shard, :after_destination_id)
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    )
    union all
    select next.shard, next.destination_id, next.track, next.rank, next.delivery_id
    from heads
    cross join lateral (
        select q.shard, q.destination_id, q.track, q.rank, q.tie as delivery_id
        from queue q
        where (q.shard, q.destination_id) > (
                  case when (:next_shards)[heads.shard + 1] = heads.shard then heads.shard
                       else (:next_shards)[heads.shard + 1] - 1::smallint end,
                  case when (:next_shards)[heads.shard + 1] = heads.shard then heads.destination_id
                       else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end
              )
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    ) next
)
select shard, destination_id, track, rank, delivery_id
from heads
where (:next_shards)[shard + 1] = shard
limit :limit
