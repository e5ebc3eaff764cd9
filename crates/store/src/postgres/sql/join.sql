-- $1 id, $2 label, $3 proof, $4 version, $5 role, $6 address, $7 lease in microseconds
-- The predecessor goes in the same transaction; joining again, because the first answer was not heard, only renews. Ids
-- are made in order of time: the last word of a process that has died replaces nobody who came after it.
with predecessor as (
    delete from nodes
    where proof = $3
      and id < $1
)
insert into nodes (id, label, proof, version, role, address, expires_at)
values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 microsecond')
on conflict (id) do update set expires_at = excluded.expires_at
returning (extract(epoch from clock_timestamp()) * 1000000)::bigint
