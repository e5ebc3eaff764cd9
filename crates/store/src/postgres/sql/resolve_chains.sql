-- Replays that have ended, by columns. One that was delivered settles all dead letters of its origin; one that ended as a dead
-- letter is settled by the first of its chain that was delivered since it was made. Run with other joins than nested loops
-- switched off, as the settlement itself. A delivery of a chain is not older than its origin: only those days are looked at.
insert into settled_dead_letters as s (delivery_id, account_id, resolved_at, delivered_by)
select distinct on (n.delivery_id) n.delivery_id, n.account_id, n.resolved_at, n.delivered_by
from (
    select dead.delivery_id, dead.account_id, c.ended_at as resolved_at, c.delivery_id as delivered_by
    from unnest(:delivery_id, :event_id, :origin, :created_at, :ended_at, :delivered)
        as c (delivery_id, event_id, origin, created_at, ended_at, delivered)
    cross join lateral (
        select a.delivery_id, a.account_id
        from attempts a
        where a.event_id = c.event_id and a.ending is not null and a.ending = 'dead_letter' and a.origin = c.origin
          and a.delivery_id >= c.origin
        offset 0                                                -- looked up for each, not joined
    ) dead
    where c.delivered
    union all
    select c.delivery_id, made.account_id, made.ended_at, made.delivery_id
    from unnest(:delivery_id, :event_id, :origin, :created_at, :ended_at, :delivered)
        as c (delivery_id, event_id, origin, created_at, ended_at, delivered)
    cross join lateral (
        select a.delivery_id, a.account_id, a.ended_at
        from attempts a
        where a.event_id = c.event_id and a.ending is not null and a.ending = 'delivered' and a.origin = c.origin
          and a.delivery_id >= c.origin and a.delivery_id <> a.origin and a.replay_id is not null
          and a.ended_at >= c.created_at
        offset 0
    ) made
    where not c.delivered
) n
order by n.delivery_id, n.resolved_at, n.delivered_by
on conflict (delivery_id) do update                             -- what was dismissed was delivered after all
set resolved_at = excluded.resolved_at, delivered_by = excluded.delivered_by, dismissed_by = null, note = null
where s.delivered_by is null
   or (excluded.resolved_at, excluded.delivered_by) < (s.resolved_at, s.delivered_by)
returning s.delivery_id
