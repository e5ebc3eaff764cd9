-- Also renews an expired lease: only the reaper's delete takes ownership away, so an outage costs no node its lanes.
with renewed as (
    update nodes
    set expires_at = now() + :lease_us * interval '1 microsecond'
    where id = :node_id
    returning id
)
select (extract(epoch from now()) * 1000000)::bigint as now, -- the node's clock is this, plus its own monotonic time
       stamp.*
from renewed
cross join (
    select (select count(*) from nodes) as members,
           (select count(*) from nodes where expires_at <= now() and id <> :node_id) as expired,
           sum(s.epoch)::bigint as epochs,
           count(*) filter (where owner.id is null) as free,
           coalesce(sum((s.shard + 1) * (s.shard + 1)) filter (where wanter.id is not null), 0)::bigint as wanted
    from shards s
    left join nodes owner on owner.id = s.node_id
    left join nodes wanter on wanter.id = s.wanted_by
) stamp
