-- Entries without a chain are found too.
select account_id
from audit_chains
where :first or account_id > :after_account_id
union
select distinct account_id
from audit_entries
where :first or account_id > :after_account_id
order by account_id
limit :limit
