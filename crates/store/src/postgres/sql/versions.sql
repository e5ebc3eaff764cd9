-- One row each, in order.
select a.version
from unnest(:account_ids) with ordinality as asked (id, place)
left join accounts a on a.id = asked.id and a.deleted_at is null
order by asked.place
