select doc, last_used_at, revoked_at
from api_keys
where id = :id
