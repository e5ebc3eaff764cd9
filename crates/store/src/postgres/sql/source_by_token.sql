select doc, version, token_hash
from sources
where token_hash = :token_hash and deleted_at is null
