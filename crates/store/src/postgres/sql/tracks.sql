-- A loose scan: from each track's first row straight to the next track's, one descent of the key per track.
with recursive heads as (
    (
        select q.track, q.rank, q.delivery_id, q.due_at
        from queue q
        where q.shard = :shard and q.destination_id = :destination_id and q.track >= :from_track
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    )
    union all
    select next.track, next.rank, next.delivery_id, next.due_at
    from heads
    cross join lateral (
        select q.track, q.rank, q.delivery_id, q.due_at
        from queue q
        where q.shard = :shard and q.destination_id = :destination_id and q.track > heads.track
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    ) next
)
select track, rank, delivery_id, due_at
from heads
limit :limit
