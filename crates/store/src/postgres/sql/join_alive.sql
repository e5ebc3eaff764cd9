-- $1 proof. Somebody who is neither expired nor our own predecessor.
-- clock_timestamp, because now() was before we waited for the lock.
select label, (extract(epoch from expires_at - clock_timestamp()) * 1000000)::bigint
from nodes
where expires_at > clock_timestamp()
  and proof <> $1
order by expires_at desc
limit 1
