insert into audit_chains (account_id, number, hash, forgotten_number, forgotten_hash)
values (:account_id, :number, :hash, 0, :beginning)
on conflict (account_id) do update
set number = excluded.number,
    hash = excluded.hash
