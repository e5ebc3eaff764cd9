-- Follows a scan, and the places it has looked at: of those, what is wanted.
page as (
    select s.*, e.type, e.source_id, e.ordering_key
    from scan s
    left join lateral (
        select events.type, events.source_id, events.ordering_key
        from events
        where events.id = s.event_id
        limit 1
    ) e on true
    where s.place <= $4
      and case when s.ending is null
               then case when s.attempts = 0 then $10 else $11 end
               else $12::text[] is null or s.ending = any($12)
          end
      and ($13::text[] is null or s.reason = any($13))
      and ($14::uuid[] is null or s.destination_id = any($14))
      and ($15::uuid[] is null or s.route_id = any($15))
      and ($16::uuid[] is null or e.source_id = any($16))
      and ($17::text[] is null or e.type ~ any($17))
      and ($18::smallint[] is null or s.last_http_status = any($18))
      and ($19::uuid[] is null or s.replay_id = any($19))
    order by s.place
    limit $5
)
select (select looked.delivery_id from looked order by looked.place desc limit 1),    -- the last there was to look at
       (select looked.delivery_id from looked where looked.place = $4),               -- the last that was looked at
       page.shard, page.delivery_id, page.account_id, page.event_id, page.destination_id, page.route_id,
       page.replay_id, page.origin, page.track, page.rank, page.due_at, page.attempts, page.spent, page.tls_errors,
       page.last_outcome, page.last_http_status, page.created_at, page.available_at, page.payload_bytes,
       page.sequence, page.ending, page.reason, page.ended_at, page.type, page.source_id, page.ordering_key
from (select) always
left join page on true
order by page.place
