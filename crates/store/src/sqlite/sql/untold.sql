-- The oldest first, of all accounts but those that have had their share.
select id, account_id, about_account_id, destination_id, kind, data
from operational_notes
where account_id not in (select unhex(value) from json_each(:passed_over))
order by id, account_id
limit :limit
