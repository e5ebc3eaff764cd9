select (select count(*) from nodes),
       (select count(*) from nodes where expires_at <= now()),
       sum(s.epoch)::bigint,
       count(*) filter (where owner.id is null),
       coalesce(sum((s.shard + 1) * (s.shard + 1)) filter (where wanter.id is not null), 0)::bigint
from shards s
left join nodes owner on owner.id = s.node_id
left join nodes wanter on wanter.id = s.wanted_by
