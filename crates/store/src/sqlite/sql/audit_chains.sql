-- Entries without a chain are found too. What is no id is nobody's: whose it was misses it.
select account_id
from audit_chains
where account_id > :after and typeof(account_id) = 'blob' and length(account_id) = 16
union
select distinct account_id
from audit_entries
where account_id > :after and typeof(account_id) = 'blob' and length(account_id) = 16
order by account_id
limit :limit
