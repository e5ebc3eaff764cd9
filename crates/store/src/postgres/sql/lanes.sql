-- $1 for every shard the first one from it on that is asked for (1024: none); $2 shard, $3 destination to go on after;
-- $4 limit
-- A loose scan: from each lane's first row straight to the next lane's, one descent of the key per lane. Having come to
-- a shard that is not asked for, it leaps to the end of the one before the next that is.
with recursive heads as (
    (
        select q.shard, q.destination_id, q.track, q.rank, q.tie as delivery_id
        from queue q
        where (q.shard, q.destination_id) > ($2, $3)
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
                  case when ($1)[heads.shard + 1] = heads.shard then heads.shard
                       else ($1)[heads.shard + 1] - 1::smallint end,
                  case when ($1)[heads.shard + 1] = heads.shard then heads.destination_id
                       else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end
              )
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    ) next
)
select shard, destination_id, track, rank, delivery_id
from heads
where ($1)[shard + 1] = shard
limit $4
