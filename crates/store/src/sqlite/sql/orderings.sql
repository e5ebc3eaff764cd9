-- :since a version. From the beginning on only those that are ordered, later every one that has changed.
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
    where account_id = :account_id and version > :since
)
where :since > 0 or ordering <> 'none'
order by id
