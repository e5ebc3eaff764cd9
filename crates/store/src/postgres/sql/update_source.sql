with forgotten as (
  delete from refused_requests where source_id = :id and not :keep_refused
)
update sources
set uid = :uid, token_hash = :token_hash, version = :version, doc = :doc
where id = :id
