-- One row each, in order.
select to_regclass(wanted.name) is null as missing
from unnest(:names) with ordinality as wanted (name, place)
order by wanted.place
