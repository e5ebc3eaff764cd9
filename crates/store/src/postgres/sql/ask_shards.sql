-- $1 node, $2 shards. Compare-and-swap on who wants it, as with taking.
with me as materialized (
    select id
    from nodes
    where id = $1
    for key share
),
unwanted as materialized (
    select s.shard, s.wanted_by
    from shards s
    cross join me
    where s.shard = any ($2)
      and s.node_id is distinct from $1
      and not exists (select from nodes n where n.id = s.wanted_by)
),
asked as materialized (
    select s.shard, u.wanted_by
    from unwanted u
    join shards s on s.shard = u.shard and s.wanted_by is not distinct from u.wanted_by
    order by s.shard
    for update of s skip locked
)
update shards s
set wanted_by = $1
from asked
where s.shard = asked.shard
  and s.wanted_by is not distinct from asked.wanted_by
