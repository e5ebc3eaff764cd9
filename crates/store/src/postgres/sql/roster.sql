-- Members, then shards, in one snapshot: a shard's row has its number in the first column, a member's has none.
-- A node without a row owns nothing and wants nothing.
select null::smallint as shard, n.id as node_id, null::bigint as epoch, null::uuid as wanted_by,
       n.label, n.proof, n.version, n.role, n.address, n.master_keys, n.tables_version,
       (extract(epoch from n.joined_at) * 1000000)::bigint as joined_at,
       (extract(epoch from n.expires_at) * 1000000)::bigint as expires_at,
       n.expires_at <= now() as expired,
       (extract(epoch from now()) * 1000000)::bigint as now
from nodes n
union all
select s.shard, owner.id, s.epoch, wanter.id,
       null, null, null, null, null, null, null, null, null, null,
       (extract(epoch from now()) * 1000000)::bigint
from shards s
left join nodes owner on owner.id = s.node_id
left join nodes wanter on wanter.id = s.wanted_by
order by 1 nulls first, 2
