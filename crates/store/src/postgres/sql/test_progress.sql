-- One row each, in order.
select t.taken, t.answer
from unnest(:ids) with ordinality as wanted (id, place)
left join test_sends t on t.id = wanted.id
order by wanted.place
