update sources
set deleted_at = :now, version = :version
where id = :id and account_id = :account_id and deleted_at is null
returning id
