-- From the beginning on only those that are ordered, later every one that has changed.
-- Read from the text, which has no such words anywhere else: a document that is damaged must not hide the others.
-- Most are not ordered, and a search is quicker than a pattern.
select d.id, o.ordering
from destinations d
cross join lateral (
    select case when strpos(d.doc, '"ordering":"none"') > 0 then 'none'
                else coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none') end as ordering
) o
where d.account_id = :account_id
  and d.version > :since_version
  and (:since_version > 0 or o.ordering <> 'none')
order by d.id
