-- In the order of the accounts, as every change of several locks them. What is not there any more was replaced by another.
update accounts a
set doc = replace(a.doc, l.from_text, l.to_text),
    version = a.version + 1
from (
    select locked.id, asked.from_text, asked.to_text
    from unnest(:account_ids::uuid[], :from_texts::text[], :to_texts::text[]) as asked (id, from_text, to_text)
    join accounts locked on locked.id = asked.id
    order by locked.id
    for update of locked
) l
where a.id = l.id
  and a.deleted_at is null
  and position(l.from_text in a.doc) > 0
returning a.id
