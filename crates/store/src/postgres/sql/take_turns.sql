/* posthaste:take_turns */
-- Turns by columns, sorted by delivery; :place is their order.
-- A node whose row is gone moves nothing, and the row decides: it must still wait for its time (track -1). Rows are
-- locked in the order of deliveries, as settling does, then the numbers by destination, as a commit does.
with me as materialized (
    select id from nodes where id = :node_id for key share
),
due as materialized (
    select q.account_id, q.delivery_id, q.destination_id, t.track, t.place
    from unnest(:account_id, :delivery_id, :track, :place) as t (account_id, delivery_id, track, place)
    cross join me
    cross join lateral (
        select queue.account_id, queue.delivery_id, queue.destination_id, queue.track, queue.due_at
        from queue
        where queue.account_id = t.account_id and queue.delivery_id = t.delivery_id
        limit 1                                             -- looked up, never looked for among all that wait
        for update
    ) q
    where q.track = -1 and q.due_at <= :now
),
ordered as materialized (
    select due.*, row_number() over (partition by due.destination_id order by due.place desc) - 1 as behind
    from due
),
numbers as (
    insert into sequences as s (destination_id, last)
    select ordered.destination_id, count(*)
    from ordered
    group by ordered.destination_id
    order by ordered.destination_id
    on conflict (destination_id) do update set last = s.last + excluded.last
    returning s.destination_id, s.last
)
update queue q
set track = o.track, rank = numbers.last - o.behind, sequence = numbers.last - o.behind
from ordered o
join numbers on numbers.destination_id = o.destination_id
where q.account_id = o.account_id and q.delivery_id = o.delivery_id
returning q.delivery_id
