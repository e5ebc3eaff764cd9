-- Follows a scan, and the places it has looked at: of those, what is wanted. Types are regular expressions.
page as (
    select s.*, e.type as event_type, e.source_id, e.ordering_key
    from scan s
    left join lateral (
        select events.type, events.source_id, events.ordering_key
        from events
        where events.id = s.event_id
        limit 1
    ) e on true
    where s.place <= :look_at
      and case when s.ending is null
               then case when s.attempts = 0 then :untried else :tried end
               else :endings::text[] is null or s.ending = any(:endings)
          end
      and (:reasons::text[] is null or s.reason = any(:reasons))
      and (:destination_ids::uuid[] is null or s.destination_id = any(:destination_ids))
      and (:route_ids::uuid[] is null or s.route_id = any(:route_ids))
      and (:source_ids::uuid[] is null or e.source_id = any(:source_ids))
      and (:types::text[] is null or e.type ~ any(:types))
      and (:http_statuses::smallint[] is null or s.last_http_status = any(:http_statuses))
      and (:replay_ids::uuid[] is null or s.replay_id = any(:replay_ids))
      and (:resolved::boolean is null
           or :resolved = exists (select from settled_dead_letters r where r.delivery_id = s.delivery_id))
    order by s.place
    limit :limit
)
select (select looked.delivery_id from looked order by looked.place desc limit 1) as last_id,  -- there was to look at
       (select looked.delivery_id from looked where looked.place = :look_at) as looked_at_id,  -- the last looked at
       page.shard, page.delivery_id, page.account_id, page.event_id, page.destination_id, page.route_id,
       page.replay_id, page.origin, page.track, page.rank, page.due_at, page.attempts, page.spent, page.tls_errors,
       page.last_outcome, page.last_http_status, page.created_at, page.available_at, page.payload_bytes,
       page.sequence, page.ending, page.reason, page.ended_at, page.event_type, page.source_id, page.ordering_key,
       r.resolved_at, r.delivered_by, r.dismissed_by, r.note
from (select) always
left join page on true
left join settled_dead_letters r on r.delivery_id = page.delivery_id and page.ending = 'dead_letter'
order by page.place
