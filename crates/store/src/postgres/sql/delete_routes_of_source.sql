-- And what it did not believe.
with forgotten as (
  delete from refused_requests where source_id = :id
)
update routes
set deleted_at = :now, version = :version
where source_id = :id and account_id = :account_id and deleted_at is null
