insert into operational_notes (id, account_id, about_account_id, destination_id, kind, data)
select :id, account_id, :about_account_id, :destination_id, :kind, :data
from told_accounts
where account_id = :about_account_id or whole_installation
on conflict do nothing
