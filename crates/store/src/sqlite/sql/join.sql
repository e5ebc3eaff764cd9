-- Joining again, because the first answer was not heard, only renews.
insert into nodes (id, label, proof, version, role, address, master_keys, tables_version, joined_at, expires_at)
values (:id, :label, :proof, :version, :role, :address, :master_keys, :tables_version, :now, :expires_at)
on conflict (id) do update set expires_at = excluded.expires_at
