update sources
set uid = :uid, token_hash = :token_hash, version = :version, doc = :doc
where id = :id
