-- Compare-and-swap on the node that wants it, as with taking.
with me as materialized (
    select id
    from nodes
    where id = :node_id
    for key share
),
unwanted as materialized (
    select s.shard, s.wanted_by
    from shards s
    cross join me
    where s.shard = any (:shards)
      and s.node_id is distinct from :node_id
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
set wanted_by = :node_id
from asked
where s.shard = asked.shard
  and s.wanted_by is not distinct from asked.wanted_by
