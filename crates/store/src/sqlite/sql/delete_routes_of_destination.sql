update routes
set deleted_at = :now,
    version = :version
where destination_id = :id
  and deleted_at is null
