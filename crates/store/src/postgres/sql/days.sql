-- $1 the partitioned table
select c.relname::text
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass($1)
order by c.relname
