update routes
set uid = :uid, source_id = :source_id, destination_id = :destination_id, overrides = :overrides, version = :version,
    doc = :doc
where id = :id
