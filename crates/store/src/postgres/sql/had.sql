-- Deliveries are looked for from :from_delivery_id on. One scan of an event's deliveries, however many destinations are asked
-- for: an event may have a hundred thousand.
select n.event_id is not null and h.yes is not null as had
from unnest(:event_id, :destination_id) with ordinality as n (event_id, destination_id, place)
left join (
    select distinct d.event_id, d.destination_id, true as yes
    from (select distinct event_id as id from unnest(:event_id) as u (event_id)) e
    cross join lateral (
        select q.event_id, q.destination_id
        from queue q
        where q.event_id = e.id and q.destination_id = any(:destination_id)
        union all
        select a.event_id, a.destination_id
        from attempts a
        where a.event_id = e.id and a.ending is not null and a.destination_id = any(:destination_id)
          and a.delivery_id >= :from_delivery_id
    ) d
) h on h.event_id = n.event_id and h.destination_id = n.destination_id
order by n.place
