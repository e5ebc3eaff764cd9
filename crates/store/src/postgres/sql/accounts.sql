select id, doc, version
from accounts
where id < :before_id and deleted_at is null
order by id desc
limit :limit
