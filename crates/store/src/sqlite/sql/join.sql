-- ?1 id, ?2 label, ?3 proof, ?4 version, ?5 role, ?6 address, ?7 now, ?8 end of the lease
-- Joining again, because the first answer was not heard, only renews.
insert into nodes (id, label, proof, version, role, address, joined_at, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (id) do update set expires_at = excluded.expires_at
