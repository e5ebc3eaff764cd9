-- Those of them that number. Most are not, and a search is quicker than a pattern.
select d.id, o.numbering
from destinations d
cross join lateral (
    select case when strpos(d.doc, '"ordering":"none"') = 0
                    then coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none')
                when strpos(d.doc, '"sequence":true') > 0 then 'unordered'
                else 'none' end as numbering
) o
where d.id = any(:destination_ids)
  and o.numbering <> 'none'
order by d.id
