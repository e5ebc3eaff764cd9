-- Up to the limit, by the index of live uids.
select count(*) as count
from (select 1 from destinations where account_id = :account_id and deleted_at is null limit :limit) live
