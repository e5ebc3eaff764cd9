-- Notes by columns, for every account that is told; written twice they are one.
insert into operational_notes (id, account_id, about_account_id, destination_id, kind, data)
select n.id, t.account_id, n.about_account_id, n.destination_id, n.kind, n.data
from unnest(:note_id, :note_account_id, :note_destination_id, :note_kind, :note_data)
        as n (id, about_account_id, destination_id, kind, data)
join told_accounts t on t.account_id = n.about_account_id or t.whole_installation
order by n.id, t.account_id
on conflict do nothing
