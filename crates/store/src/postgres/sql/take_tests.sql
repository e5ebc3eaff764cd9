-- Two nodes that both take a shard for theirs do not wait for each other, and none takes a test twice.
with asked as materialized (
    select id
    from test_sends
    where not taken
      and shard = any (:shards)
    order by id
    limit :max
    for update skip locked
)
update test_sends t
set taken = true
from asked
where t.id = asked.id
returning t.doc
