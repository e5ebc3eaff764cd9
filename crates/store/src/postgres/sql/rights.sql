-- Whether this role may make tables where they would be made. A schema that a role may not use is none to
-- current_schema(): then the first one of the path counts that is named.
with wanted as (
    select coalesce(
        current_schema()::text,
        (
            select trim(both ' "' from part)
            from unnest(string_to_array(current_setting('search_path'), ',')) with ordinality parts (part, place)
            where trim(both ' "' from part) not in ('', '$user')
            order by place
            limit 1
        ),
        'public'
    ) as schema
)
select quote_ident(current_user) as role,
       quote_ident(current_database()) as database,
       quote_ident(schema) as schema,
       to_regnamespace(quote_ident(schema)) is not null as has_schema,
       has_database_privilege(current_database(), 'create') as may_make_schemas,
       coalesce(has_schema_privilege(to_regnamespace(quote_ident(schema))::oid, 'create'), false)
           and coalesce(has_schema_privilege(to_regnamespace(quote_ident(schema))::oid, 'usage'), false)
           as may_make_tables
from wanted
