-- :after_destination, :after a route there; :source_id null: published by API
select version, doc
from routes indexed by routes_walk          -- in the order of the walk, from here; never a sort of all of a source
where account_id = :account_id
  and (destination_id, id) > (:after_destination, :after)
  and deleted_at is null
  and source_id is :source_id
order by destination_id, id
limit :limit
