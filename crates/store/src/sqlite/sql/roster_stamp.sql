select (select count(*) from nodes),
       (select count(*) from nodes where expires_at <= :now),
       sum(s.epoch),
       sum(owner.id is null),
       sum(iif(wanter.id is null, 0, (s.shard + 1) * (s.shard + 1)))
from shards s
left join nodes owner on owner.id = s.node_id
left join nodes wanter on wanter.id = s.wanted_by
