-- From the beginning on only those that number, later every one that has changed.
-- Read from the text, which has no such words anywhere else: a document that is damaged must not hide the others.
-- Most do not, and a search is quicker than a pattern.
select d.id, o.numbering
from destinations d
cross join lateral (
    select case when strpos(d.doc, '"ordering":"none"') = 0
                    then coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none')
                when strpos(d.doc, '"sequence":true') > 0 then 'unordered'
                else 'none' end as numbering
) o
where d.account_id = :account_id
  and d.version > :since_version
  and (:since_version > 0 or o.numbering <> 'none')
order by d.id
