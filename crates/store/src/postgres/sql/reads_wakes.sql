-- A node reads the table: the others write it.
insert into wakes (shard, round)
values (-2, (extract(epoch from now()) * 1000000)::bigint)
on conflict (shard) do update set round = greatest(wakes.round, excluded.round)
