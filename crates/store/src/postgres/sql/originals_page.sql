-- Follows the scan: a page of what is wanted, and how far was looked.
select (select scan.delivery_id from scan order by scan.place desc limit 1) as last_id,  -- there was to look at
       (select scan.delivery_id from scan where scan.place = :look_at) as looked_at_id,   -- the last looked at
       p.delivery_id, p.origin, p.event_id, p.route_id, p.destination_id, p.ordering_key, o.numbering
from (select) always
left join (
    select page.*
    from page
    order by page.place
    limit :limit
) p on true
left join lateral (
    select case when strpos(d.doc, '"ordering":"none"') = 0
                    then coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none')
                when strpos(d.doc, '"sequence":true') > 0 then 'unordered'
                else 'none' end as numbering
    from destinations d
    where d.id = p.destination_id and d.deleted_at is null
) o on true
order by p.place
