-- $1 destinations, $2 newer than. One row each, in order.
select l.doc
from unnest($1) with ordinality as asked (id, place)
left join lanes l on l.destination_id = asked.id and l.updated_at > $2
order by asked.place
