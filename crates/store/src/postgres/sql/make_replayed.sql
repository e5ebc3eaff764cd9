/* posthaste:replay */
-- An origin that this replay has had already, and an event that has had its time or its payload, give none. An event's row
-- is locked: retention, or whoever erases its payload, either comes first or finds what waits.
with d as materialized (
    select d.*, e.account_id, e.size_bytes
    from unnest(:origin, :event_id, :delivery_id, :shard, :destination_id, :route_id, :track, :rank, :due_at, :created_at,
                :sequenced) with ordinality
        as d (origin, event_id, id, shard, destination_id, route_id, track, rank, due_at, created_at, sequenced, place)
    cross join lateral (
        select events.account_id, events.size_bytes
        from events
        where events.id = d.event_id and events.payload_erased_at is null
        limit 1
        for key share
    ) e
),
once as (
    insert into replayed (replay_id, origin, delivery_id)
    select :replay_id, d.origin, d.id
    from d
    order by d.place
    on conflict (replay_id, origin) do nothing
    returning delivery_id
),
made as materialized (
    select d.*
    from d
    join once on once.delivery_id = d.id
),
ordered as materialized (
    select made.id, made.destination_id,
           row_number() over (partition by made.destination_id order by made.place desc) - 1 as behind
    from made
    where made.sequenced
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
    insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, replay_id,
                       origin, due_at, attempts, spent, tls_errors, created_at, available_at, payload_bytes, sequence)
    select made.shard, made.destination_id, made.track,
           case when made.track = 0 then made.rank else coalesce(o.sequence, made.rank) end,   -- 0: in no order
           made.id, made.account_id,
           made.event_id, made.route_id, :replay_id, made.origin, made.due_at, 0, 0, 0, made.created_at, made.created_at,
           made.size_bytes, o.sequence
    from made
    left join (
        select ordered.id, numbers.last - ordered.behind as sequence
        from ordered
        join numbers on numbers.destination_id = ordered.destination_id
    ) o on o.id = made.id
)
select count(*) as made
from once
