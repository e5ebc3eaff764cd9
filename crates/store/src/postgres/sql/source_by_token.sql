select s.doc, s.version, s.token_hash
from sources s
join accounts a on a.id = s.account_id and a.deleted_at is null
where s.token_hash = :token_hash and s.deleted_at is null
