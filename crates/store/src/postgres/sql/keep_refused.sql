-- A source that is gone keeps nothing. Its row is held, so that it does not go meanwhile and leave this behind.
with source as (
  select id, account_id
  from sources
  where id = :source_id and account_id = :account_id and deleted_at is null
  for share
)
insert into refused_requests (source_id, at, account_id, doc, body)
select id, :at, account_id, :doc, :body
from source
on conflict do nothing
