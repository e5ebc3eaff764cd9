-- Exact up to the limit, and never more.
select count(*) as count
from (select from queue where account_id = :account_id limit :limit) q
