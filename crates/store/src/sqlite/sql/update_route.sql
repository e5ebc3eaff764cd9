update routes
set uid = :uid,
    version = :version,
    source_id = :source_id,
    destination_id = :destination_id,
    doc = :doc
where id = :id
