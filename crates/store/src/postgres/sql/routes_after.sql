-- Of no source: what is published by API. The version and the routes of one snapshot; a single row without a route where
-- there is nothing new to say.
select r.doc, r.version, a.version as account_version
from accounts a
left join lateral (
    select routes.destination_id, routes.id, routes.doc, routes.version
    from routes
    where routes.account_id = a.id
      and (routes.destination_id, routes.id) > (:after_destination_id, :after_route_id)
      and routes.deleted_at is null
      and routes.source_id is not distinct from :source_id
      and a.version is distinct from :known_version
    order by routes.account_id, routes.destination_id, routes.id   -- as the index has them, from here on
    limit :limit
) r on true
where a.id = :account_id and a.deleted_at is null
order by r.destination_id, r.id
