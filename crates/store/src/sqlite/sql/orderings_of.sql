-- Read from the text, as all orderings are.
select case
         when instr(doc, '"ordering":"strict"') > 0 then 'strict'
         when instr(doc, '"ordering":"key"') > 0 then 'key'
         else 'none'
       end,
       deleted_at is not null
from destinations
where id = :id
