-- $1 node, $2 lease in microseconds
-- Also renews an expired lease: only the reaper's delete takes ownership away, so an outage costs nobody their lanes.
with renewed as (
    update nodes
    set expires_at = now() + $2 * interval '1 microsecond'
    where id = $1
    returning id
)
select (extract(epoch from now()) * 1000000)::bigint, -- the node's clock is this, plus its own monotonic time
       stamp.*
from renewed
cross join (
    select (select count(*) from nodes),
           (select count(*) from nodes where expires_at <= now() and id <> $1),
           sum(s.epoch)::bigint,
           count(*) filter (where owner.id is null),
           coalesce(sum((s.shard + 1) * (s.shard + 1)) filter (where wanter.id is not null), 0)::bigint
    from shards s
    left join nodes owner on owner.id = s.node_id
    left join nodes wanter on wanter.id = s.wanted_by
) stamp
