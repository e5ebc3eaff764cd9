-- $1 account, $2 since. From the beginning on only those that are ordered, later every one that has changed.
-- Read from the text, which has no such words anywhere else: a document that is damaged must not hide the others.
select d.id, o.ordering
from destinations d
cross join lateral (select coalesce(substring(d.doc from '"ordering":"(\w+)"'), 'none') as ordering) o
where d.account_id = $1
  and d.version > $2
  and ($2 > 0 or o.ordering <> 'none')
order by d.id
