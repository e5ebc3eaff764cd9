-- The partitions of a table.
select c.relname::text as name
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass(:table_name)
order by c.relname
