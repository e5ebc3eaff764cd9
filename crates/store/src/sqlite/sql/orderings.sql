-- ?1 account, ?2 since. From the beginning on only those that are ordered, later every one that has changed.
-- Read from the text, which has no such words anywhere else: a document that is damaged must not hide the others.
select id, ordering
from (
    select id,
           case
               when instr(doc, '"ordering":"strict"') > 0 then 'strict'
               when instr(doc, '"ordering":"key"') > 0 then 'key'
               else 'none'
           end as ordering
    from destinations
    where account_id = ?1 and version > ?2
)
where ?2 > 0 or ordering <> 'none'
order by id
