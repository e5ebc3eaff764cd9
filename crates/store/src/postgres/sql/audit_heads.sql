-- A loose scan: from each track's first row straight to the next track's, one descent of the key per track.
with recursive heads as (
    (
        select q.shard, q.destination_id, q.track, q.delivery_id, q.due_at, q.attempts
        from queue q
        where (q.shard, q.destination_id, q.track) >= (:from_shard, :from_destination_id, :from_track)
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    )
    union all
    select next.shard, next.destination_id, next.track, next.delivery_id, next.due_at, next.attempts
    from heads
    cross join lateral (
        select q.shard, q.destination_id, q.track, q.delivery_id, q.due_at, q.attempts
        from queue q
        where (q.shard, q.destination_id, q.track) > (heads.shard, heads.destination_id, heads.track)
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit 1
    ) next
)
select shard, destination_id, track, delivery_id, due_at, attempts
from heads
limit :limit
