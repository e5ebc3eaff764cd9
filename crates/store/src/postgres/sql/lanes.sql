-- $1 shard, $2 destination to go on after, $3 limit
-- A loose scan: from each lane's first row straight to the next lane's, one descent of the key per lane.
with recursive heads as (
    (
        select q.shard, q.destination_id, q.track, q.rank, q.delivery_id
        from queue q
        where (q.shard, q.destination_id) > ($1, $2)
        order by q.shard, q.destination_id, q.track, q.rank, q.delivery_id
        limit 1
    )
    union all
    select next.shard, next.destination_id, next.track, next.rank, next.delivery_id
    from heads
    cross join lateral (
        select q.shard, q.destination_id, q.track, q.rank, q.delivery_id
        from queue q
        where (q.shard, q.destination_id) > (heads.shard, heads.destination_id)
        order by q.shard, q.destination_id, q.track, q.rank, q.delivery_id
        limit 1
    ) next
)
select shard, destination_id, track, rank, delivery_id
from heads
limit $3
