-- What the server does with what it acknowledges, on this very connection: what is set for the role and for the database
-- counts. A table without a log is empty after a crash.
select name, current_setting(name) as value
from unnest(array['default_transaction_isolation', 'synchronous_commit', 'synchronous_standby_names', 'fsync',
                  'full_page_writes']) name
union all
select 'unlogged table', c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_inherits i on i.inhrelid = c.oid
left join pg_class parent on parent.oid = i.inhparent
where n.nspname = current_schema()
  and c.relpersistence = 'u'
  and c.relkind = 'r'
  and coalesce(parent.relname, c.relname) in ('accounts', 'api_keys', 'attempts', 'destinations', 'events',
      'expanding_events', 'expansions', 'gates', 'idempotency', 'queue', 'replays', 'routes', 'sequences', 'settings',
      'sources')
