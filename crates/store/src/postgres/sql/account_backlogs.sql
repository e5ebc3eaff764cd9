-- $1 pages to look at, $2 accounts to tell of
-- A queue of up to $1 pages is counted; of a larger one whole pages are drawn, and what is in them is scaled up. Its size
-- comes from the file, not from statistics: those are missing after a crash and old while the queue grows.
with share as materialized (
       select least(100.0, 100.0 * $1 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::bigint))
              as percent),
     drawn as materialized (
       select account_id, count(*) as rows, sum(payload_bytes) as bytes
       from queue tablesample system ((select percent from share))
       group by account_id)
select account_id,
       (rows * 100.0 / percent)::bigint,
       (bytes * 100.0 / percent)::bigint
from drawn, share
order by rows desc, account_id desc
limit $2
