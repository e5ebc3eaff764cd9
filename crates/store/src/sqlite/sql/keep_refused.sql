-- A source that is gone keeps nothing.
insert into refused_requests (source_id, at, account_id, doc, body)
select id, :at, account_id, :doc, :body
from sources
where id = :source_id
  and account_id = :account_id
  and deleted_at is null
on conflict do nothing
