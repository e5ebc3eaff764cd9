select p.delivery_id, p.origin, p.event_id, p.route_id, p.destination_id, e.ordering_key, o.numbering
from unnest(:delivery_ids) as given (id)
cross join lateral (
    select a.delivery_id, a.origin, a.event_id, a.route_id, a.destination_id
    from attempts a
    where a.account_id = :account_id and a.delivery_id = given.id and a.ending is not null and a.ended_at <= :ended_by
      and a.delivery_id < :below_delivery_id
      and (:resolved::boolean is null
           or :resolved = exists (select from settled_dead_letters s where s.delivery_id = a.delivery_id))
    limit 1
) p
left join lateral (
    select events.ordering_key
    from events
    where events.id = p.event_id
    limit 1
) e on true
left join lateral (
    select case when strpos(d.doc, '"ordering":"none"') = 0
                    then coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none')
                when strpos(d.doc, '"sequence":true') > 0 then 'unordered'
                else 'none' end as numbering
    from destinations d
    where d.id = p.destination_id and d.deleted_at is null
) o on true
order by p.delivery_id
