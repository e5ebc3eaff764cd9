select doc, version
from routes
where account_id = :account_id and id < :before_id and deleted_at is null
order by id desc
limit :limit
