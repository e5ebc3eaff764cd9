select doc, version, token_hash
from sources
where account_id = :account_id and id < :before_id and deleted_at is null
order by id desc
limit :limit
