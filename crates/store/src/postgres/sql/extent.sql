-- How much room the database takes, and in how many partitions its days are.
select pg_database_size(current_database()) as bytes,
       (
           select count(*)
           from pg_inherits
           join pg_class on pg_class.oid = pg_inherits.inhrelid
           where pg_class.relkind = 'r' and pg_class.relnamespace = current_schema()::regnamespace
       ) as partitions
