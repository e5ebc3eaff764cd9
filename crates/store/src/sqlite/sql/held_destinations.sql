-- A gate whose record is empty is on its way back: nothing is held by it.
select d.id
from (
  select id, paused_at, disabled_at
  from destinations
  where account_id = :account_id
    and deleted_at is null
  order by id desc
  limit :limit
) d
where d.paused_at is not null
   or d.disabled_at is not null
   or exists (select 1 from gates g where g.destination_id = d.id and g.doc <> '{}')
order by d.id desc
