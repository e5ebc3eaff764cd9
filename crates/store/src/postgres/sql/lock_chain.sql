-- The row is there from the first entry on, and locked from here to the end of the transaction.
insert into audit_chains (account_id, number, hash, forgotten_number, forgotten_hash)
values (:account_id, 0, :beginning, 0, :beginning)
on conflict (account_id) do update
set number = audit_chains.number
returning number, hash, forgotten_number, forgotten_hash
