-- :since a version. From the beginning on only those that number, later every one that has changed.
-- Read from the text, which has no such words anywhere else: a document that is damaged must not hide the others.
select id, numbering
from (
    select id,
           case
               when instr(doc, '"ordering":"strict"') > 0 then 'strict'
               when instr(doc, '"ordering":"key"') > 0 then 'key'
               when instr(doc, '"sequence":true') > 0 then 'unordered'
               else 'none'
           end as numbering
    from destinations
    where account_id = :account_id and version > :since
)
where :since > 0 or numbering <> 'none'
order by id
