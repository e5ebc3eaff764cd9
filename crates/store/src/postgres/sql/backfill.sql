-- A chunk of a backfill, several statements in one round trip: each sees what was committed before it began.
-- Nothing is written, and nothing answered, unless it still runs, is held by this node, and has the cursor as it was read. Its row
-- is locked to the end: a pause or a cancel waits that long, and then nothing more is made.
perform
from replays
where id = :replay_id
  and status = 'backfilling'
  and held_by = :node_id
  and cursor is not distinct from :from_cursor
  and cursor_destination is not distinct from :from_destination
for update;
if not found then
    return;
end if;

-- A chunk has its events for itself, among backfills and expansions: what they had is looked for by the next statement, which
-- sees what those before it have committed. In the order of their ids, as retention takes them.
perform
from events e
where e.id = any(:locked_event_id)
order by e.id
for no key update;

-- First deliveries to destinations that never had the event. One that is gone, whose payload is, or whose
-- expansion is under way, has none. What was counted at the start and was not made at the end has got its delivery otherwise
-- meanwhile, or is gone.
return query
with d as materialized (
    select d.*, e.account_id, e.size_bytes, e.deliver_at
    from unnest(:event_id, :delivery_id, :shard, :destination_id, :route_id, :track, :rank, :due_at, :created_at,
                :sequenced) with ordinality
        as d (event_id, id, shard, destination_id, route_id, track, rank, due_at, created_at, sequenced, place)
    cross join lateral (
        select events.account_id, events.size_bytes, events.deliver_at
        from events
        where events.id = d.event_id and events.account_id = :account_id and events.deliveries is not null
          and events.payload_erased_at is null
        limit 1
    ) e
),
had as materialized (
    select h.event_id, h.destination_id
    from (select distinct d.event_id as id from d) e
    cross join lateral (
        select q.event_id, q.destination_id
        from queue q
        where q.event_id = e.id and q.destination_id = any(:destination_id)
        union all
        select a.event_id, a.destination_id
        from attempts a
        where a.event_id = e.id and a.ending is not null and a.destination_id = any(:destination_id)
          and a.delivery_id >= :from_delivery_id             -- a second bound would pass for a better key than the event
    ) h
),
made as materialized (
    select d.*
    from d
    where not exists (select from had where had.event_id = d.event_id and had.destination_id = d.destination_id)
),
noted as (
    insert into replayed (replay_id, origin, delivery_id)
    select :replay_id, made.id, made.id
    from made
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
           made.id, made.account_id, made.event_id, made.route_id, :replay_id, made.id, made.due_at, 0, 0, 0,
           made.created_at, greatest(made.created_at, made.deliver_at), made.size_bytes, o.sequence
    from made
    left join (
        select ordered.id, numbers.last - ordered.behind as sequence
        from ordered
        join numbers on numbers.destination_id = ordered.destination_id
    ) o on o.id = made.id
),
all_made as materialized (
    select coalesce(array_agg(made.id), '{}') as ids, count(*) as count
    from made
),
moved as (
    update replays r
    set cursor = :cursor,
        cursor_destination = :cursor_destination,
        created = r.created + all_made.count,
        skipped = case
                      when :done then greatest(r.skipped + :skipped, r.matched - r.created - all_made.count)
                      else r.skipped + :skipped
                  end,
        held_by = case when :done then null else r.held_by end,
        held_until = case when :done then null else :held_until end,
        status = case when :done then 'completed' else r.status end,
        finished_at = case when :done then :now else r.finished_at end
    from all_made
    where r.id = :replay_id
)
select all_made.ids
from all_made;
