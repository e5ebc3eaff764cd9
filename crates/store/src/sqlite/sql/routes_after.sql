-- ?1 account, ?2 routes above this, ?3 source (null: published by API), ?4 limit
select version, doc
from routes indexed by routes_account       -- in the order of ids, from here; never a sort of all of a source
where account_id = ?1
  and id > ?2
  and deleted_at is null
  and source_id is ?3
order by id
limit ?4
