-- :since a version
select deleted_at is not null, id, version, doc
from routes
where account_id = :account_id
  and version > :since
order by id
