-- Before the destination is written: of one that is disabled already there is nothing new to tell.
insert into operational_notes (id, account_id, about_account_id, destination_id, kind, data)
select :note_id, t.account_id, d.account_id, d.id, :kind, :data
from destinations d
join told_accounts t on t.account_id = d.account_id or t.whole_installation
where d.id = :destination_id and d.disabled_at is null
on conflict do nothing
