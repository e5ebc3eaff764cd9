-- $1 channel, $2 payloads, $3 how long ago a reader of the table was last seen, in microseconds
-- Writes nothing, so that nothing is flushed under the lock that notifications share. Says whether the table is read.
select count(pg_notify($1, news.payload)),
       exists (
           select
           from wakes
           where shard = -2
             and round > (extract(epoch from now()) * 1000000)::bigint - $3
       )
from unnest($2) as news (payload)
