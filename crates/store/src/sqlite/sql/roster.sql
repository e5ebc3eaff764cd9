-- Every shard; a node without a row owns nothing and wants nothing.
select s.shard, owner.id, s.epoch, wanter.id
from shards s
left join nodes owner on owner.id = s.node_id
left join nodes wanter on wanter.id = s.wanted_by
order by s.shard
