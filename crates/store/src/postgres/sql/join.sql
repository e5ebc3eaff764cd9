-- $1 id, $2 label, $3 proof, $4 version, $5 lease in microseconds
insert into nodes (id, label, proof, version, expires_at)
values ($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 microsecond')
returning (extract(epoch from clock_timestamp()) * 1000000)::bigint
