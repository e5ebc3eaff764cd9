select id, doc, version
from accounts
where id < :before_id
order by id desc
limit :limit
