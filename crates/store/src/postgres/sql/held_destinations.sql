-- A gate whose record is empty is on its way back: nothing is held by it.
select d.id
from (
    select destinations.id, destinations.paused_at, destinations.disabled_at
    from destinations
    where destinations.account_id = :account_id and destinations.deleted_at is null
    order by destinations.account_id, destinations.id desc
    limit :limit
) d
where d.paused_at is not null
   or d.disabled_at is not null
   or exists (select from gates g where g.destination_id = d.id and g.doc <> '{}')
order by d.id desc
