-- $1 destinations: those of them that are ordered
select d.id, o.ordering
from destinations d
cross join lateral (select coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none') as ordering) o
where d.id = any($1)
  and strpos(d.doc, '"ordering":"none"') = 0               -- most are, and a search is quicker than a pattern
  and o.ordering <> 'none'
order by d.id
