-- Routes of a destination that have settings of their own, removed ones too: what waits keeps its schedule. Most have
-- none, however many routes there are.
select version, doc
from routes
where destination_id = :destination_id
  and (doc ->> '$.retry_policy' is not null
    or doc ->> '$.timeout_seconds' is not null
    or doc ->> '$.signing' is not null)
order by id
