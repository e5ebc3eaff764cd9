-- A queue of up to :sample_pages pages is counted; of a larger one whole pages are drawn, and what is in them is scaled
-- up. Its size comes from the file, not from statistics: those are missing after a crash and old while the queue grows.
with share as materialized (
       select least(100.0, 100.0 * :sample_pages
                           / greatest(1, pg_relation_size('queue') / current_setting('block_size')::bigint)) as percent),
     drawn as materialized (
       select account_id, count(*) as rows, sum(payload_bytes) as bytes
       from queue tablesample system ((select percent from share))
       group by account_id)
select account_id,
       (rows * 100.0 / percent)::bigint as rows,
       (bytes * 100.0 / percent)::bigint as bytes
from drawn, share
order by drawn.rows desc, drawn.account_id desc
limit :limit
