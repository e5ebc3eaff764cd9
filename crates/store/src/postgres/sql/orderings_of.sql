-- Those of them that are ordered. Most are not, and a search is quicker than a pattern.
select d.id, o.ordering
from destinations d
cross join lateral (
    select case when strpos(d.doc, '"ordering":"none"') > 0 then 'none'
                else coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none') end as ordering
) o
where d.id = any(:destination_ids)
  and o.ordering <> 'none'
order by d.id
