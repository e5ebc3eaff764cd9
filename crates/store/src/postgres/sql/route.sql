select doc, version
from routes
where id = :id and account_id = :account_id and deleted_at is null
