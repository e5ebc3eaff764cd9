-- :after a route, :source_id null: published by API
select version, doc
from routes indexed by routes_account       -- in the order of ids, from here; never a sort of all of a source
where account_id = :account_id
  and id > :after
  and deleted_at is null
  and source_id is :source_id
order by id
limit :limit
