-- Deliveries are looked for from :from_delivery_id on: only those days are planned for. Of what waits and of what has
-- ended of one event at most :limit are counted; null: all. Replays are not an event's fan-out, but a dead letter counts as
-- what it was settled by: only of those it is looked up.
select waiting.count, ended.delivered, ended.dead_letter, ended.dismissed, ended.cancelled, ended.last_at
from unnest(:event_ids) with ordinality as e (id, place)
cross join lateral (
    select count(*) as count
    from (
        select from queue q
        where q.event_id = e.id and q.origin = q.delivery_id
        limit :limit
    ) q
) waiting
cross join lateral (
    select count(*) filter (where a.ending = 'delivered') as delivered,
           count(*) filter (where a.ending = 'dead_letter') as dead_letter,
           count(*) filter (where a.ending = 'dismissed') as dismissed,
           count(*) filter (where a.ending = 'cancelled') as cancelled,
           max(a.ended_at) as last_at
    from (
        select case when a.ending = 'dead_letter'
                        then coalesce((select case when s.delivered_by is null then 'dismissed' else 'delivered' end
                                       from settled_dead_letters s
                                       where s.delivery_id = a.delivery_id),
                                      a.ending)
                    else a.ending end as ending,
               a.ended_at
        from attempts a
        where a.event_id = e.id and a.ending is not null and a.origin = a.delivery_id
          and a.delivery_id >= :from_delivery_id
        limit :limit
    ) a
) ended
order by e.place
