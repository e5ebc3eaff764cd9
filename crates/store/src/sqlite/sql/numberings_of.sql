-- Read from the text, as all numberings are.
select case
         when instr(doc, '"ordering":"strict"') > 0 then 'strict'
         when instr(doc, '"ordering":"key"') > 0 then 'key'
         when instr(doc, '"sequence":true') > 0 then 'unordered'
         else 'none'
       end,
       deleted_at is not null
from destinations
where id = :id
