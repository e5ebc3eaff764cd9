update sources
set uid = :uid,
    version = :version,
    token_hash = :token_hash,
    doc = :doc
where id = :id
