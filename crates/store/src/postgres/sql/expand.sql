/* posthaste:expand */
-- The cursor as it was read and as it shall be, whether this is the end, and deliveries by columns.
-- Guarded by the cursor, a column of the row that is written: a second writer waits for the row, looks at it again, and
-- writes nothing. Nothing else tells a chunk that was written before: its deliveries may have ended since.
with moved as (
    update expanding_events x
    set cursor = :to_cursor, deliveries = x.deliveries + cardinality(:delivery_id), other_routes = :other_routes
    where x.event_id = :event_id and x.cursor is not distinct from :from_cursor and not :done
    returning x.deliveries
),
ended as (
    delete from expanding_events x
    where x.event_id = :event_id and x.cursor is not distinct from :from_cursor and :done
    returning x.deliveries + cardinality(:delivery_id) as deliveries
),
turn as (
    select deliveries from moved
    union all
    select deliveries from ended
),
ordered as materialized (
    select d.id, d.destination_id,
           row_number() over (partition by d.destination_id order by d.place desc) - 1 as behind
    from turn
    join events e on e.id = :event_id                              -- one that has had its time has no deliveries any more
    cross join unnest(:delivery_id, :destination_id, :sequenced) with ordinality
        as d (id, destination_id, sequenced, place)
    where d.sequenced
),
numbers as (
    insert into sequences as s (destination_id, last)
    select ordered.destination_id, count(*)
    from ordered
    group by ordered.destination_id
    order by ordered.destination_id                         -- as a commit does
    on conflict (destination_id) do update set last = s.last + excluded.last
    returning s.destination_id, s.last
),
promised as (
    insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
                       attempts, spent, tls_errors, created_at, available_at, payload_bytes, sequence)
    select d.shard, d.destination_id, d.track,
           case when d.track = 0 then d.rank else coalesce(o.sequence, d.rank) end,   -- 0: in no order
           d.id, e.account_id, e.id, d.route_id, d.id,
           d.due_at, 0, 0, 0, d.created_at, greatest(d.created_at, e.deliver_at), e.size_bytes, o.sequence
    from turn
    join events e on e.id = :event_id
    cross join unnest(:delivery_id, :shard, :destination_id, :route_id, :track, :rank, :due_at, :created_at)
        as d (id, shard, destination_id, route_id, track, rank, due_at, created_at)
    left join (
        select ordered.id, numbers.last - ordered.behind as sequence
        from ordered
        join numbers on numbers.destination_id = ordered.destination_id
    ) o on o.id = d.id
),
counted as (
    update events e
    set deliveries = ended.deliveries, other_routes = :other_routes
    from ended
    where e.id = :event_id
)
select deliveries
from turn
