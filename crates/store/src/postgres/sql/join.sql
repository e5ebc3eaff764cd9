-- The predecessor goes in the same transaction; joining again, because the first answer was not heard, only renews. Ids
-- are made in order of time: the last word of a process that has died replaces no node that came after it.
with predecessor as (
    delete from nodes
    where proof = :proof
      and id < :id
)
insert into nodes (id, label, proof, version, role, address, master_keys, tables_version, expires_at)
values (:id, :label, :proof, :version, :role, :address, :master_keys, :tables_version,
        clock_timestamp() + :lease_us * interval '1 microsecond')
on conflict (id) do update set expires_at = excluded.expires_at
returning (extract(epoch from clock_timestamp()) * 1000000)::bigint as now
