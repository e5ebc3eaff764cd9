-- Whether there is a list of migrations, and whether there are tables of ours, or the list they had before.
select to_regclass(:migrations_table) is not null as has_list,
       exists (
           select
           from pg_class c
           join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = current_schema()
             and c.relname in ('refinery_schema_history', 'accounts', 'destinations', 'events', 'queue', 'attempts')
       ) as has_others
