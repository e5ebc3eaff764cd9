-- ?1 destination
-- Its routes that have settings of their own, removed ones too. Most have none, however many routes there are.
select version, doc
from routes
where destination_id = ?1
  and (doc ->> '$.retry_policy' is not null
    or doc ->> '$.timeout_seconds' is not null
    or doc ->> '$.signing' is not null)
order by id
