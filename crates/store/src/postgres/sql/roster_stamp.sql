select (select count(*) from nodes) as members,
       (select count(*) from nodes where expires_at <= now()) as expired,
       sum(s.epoch)::bigint as epochs,
       count(*) filter (where owner.id is null) as free,
       coalesce(sum((s.shard + 1) * (s.shard + 1)) filter (where wanter.id is not null), 0)::bigint as wanted
from shards s
left join nodes owner on owner.id = s.node_id
left join nodes wanter on wanter.id = s.wanted_by
