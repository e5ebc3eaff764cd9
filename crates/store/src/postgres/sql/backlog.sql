-- One row per destination, in order.
select waiting.rows, waiting.oldest
from unnest(:destination_ids) with ordinality as d (id, place)
cross join lateral (
    select count(*) as rows, min(lane.created_at) as oldest
    from (
        select q.created_at
        from queue q
        where q.shard = (select destinations.shard from destinations where destinations.id = d.id)
          and q.destination_id = d.id
        order by q.shard, q.destination_id, q.track, q.rank, q.tie
        limit :limit
    ) lane
) waiting
order by d.place
