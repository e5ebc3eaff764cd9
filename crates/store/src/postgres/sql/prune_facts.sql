-- Facts whose event is gone.
with me as materialized (
    select name from chores where name = :chore and node_id = :node_id and term = :term for share
),
scan as materialized (
    select distinct on (a.delivery_id) a.delivery_id, a.event_id
    from attempts a
    where a.delivery_id >= :from_delivery_id and a.delivery_id < :below_delivery_id
    order by a.delivery_id
    limit :limit + 1
),
lost as materialized (
    select s.delivery_id
    from (select scan.* from scan order by scan.delivery_id limit :limit) s
    cross join me
    left join lateral (select true as yes from events e where e.id = s.event_id limit 1) event on true
    where event.yes is null
),
gone as (
    delete from attempts a
    where a.delivery_id = any(array(select lost.delivery_id from lost))
      and a.delivery_id >= :from_delivery_id and a.delivery_id < :below_delivery_id
    returning 1
)
select (select count(*) from gone) as gone,
       (
           select scan.delivery_id from scan order by scan.delivery_id offset :limit limit 1
       ) as next_delivery_id                                   -- the first that was left
from me
