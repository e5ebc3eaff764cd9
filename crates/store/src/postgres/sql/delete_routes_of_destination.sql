update routes
set deleted_at = :now, version = :version
where destination_id = :id and account_id = :account_id and deleted_at is null
