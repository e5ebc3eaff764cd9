-- $1 account, $2 routes above this, $3 source (null: published by API), $4 limit, $5 the version that is known
-- The version and the routes of one snapshot; a single row without a route where there is nothing new to say.
select r.doc, r.version, a.version
from accounts a
left join lateral (
    select routes.id, routes.doc, routes.version
    from routes
    where routes.account_id = a.id
      and routes.id > $2
      and routes.deleted_at is null
      and routes.source_id is not distinct from $3
      and a.version is distinct from $5
    order by routes.account_id, routes.id                   -- as the index has them, from here on
    limit $4
) r on true
where a.id = $1
order by r.id
