-- Writes nothing, so that nothing is flushed under the lock that notifications share. Says whether the table is read: by
-- a reader that was seen within :reader_gone_us.
select count(pg_notify(:channel, news.payload)) as told,
       exists (
           select
           from wakes
           where shard = -2
             and round > (extract(epoch from now()) * 1000000)::bigint - :reader_gone_us
       ) as table_is_read
from unnest(:payloads) as news (payload)
