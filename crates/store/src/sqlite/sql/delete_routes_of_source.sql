update routes
set deleted_at = :now,
    version = :version
where source_id = :id
  and deleted_at is null
