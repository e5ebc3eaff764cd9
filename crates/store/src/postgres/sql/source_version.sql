select version
from sources
where id = :id and account_id = :account_id and deleted_at is null
