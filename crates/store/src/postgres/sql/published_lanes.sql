-- One row each, in order.
select l.doc
from unnest(:destination_ids) with ordinality as asked (id, place)
left join lanes l on l.destination_id = asked.id and l.updated_at > :newer_than
order by asked.place
