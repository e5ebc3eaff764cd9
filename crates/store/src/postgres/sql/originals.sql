-- What narrows the scan: dead letters alone, the one destination, events. What is looked for in it: the other filters,
-- ended at :ended_by or before, not made by :except_replay_id. Types are regular expressions.
-- What has ended, oldest first. An unused filter is null, known when the statement is planned, and so costs nothing.
with scan as materialized (
    select s.*, row_number() over (order by s.delivery_id) as place
    from (
        select a.delivery_id, a.origin, a.event_id, a.destination_id, a.route_id, a.replay_id, a.http_status, a.ending,
               a.reason, a.ended_at
        from attempts a
        where a.account_id = :account_id
          and a.delivery_id < :below_delivery_id and a.delivery_id > :after_delivery_id
          and a.ending is not null
          and (:dead_letters_alone::boolean is not true or (a.ending = 'dead_letter' and not a.late))
          and (:destination_id::uuid is null or a.destination_id = :destination_id)
          and (:event_ids::uuid[] is null or a.event_id = any(:event_ids))
        order by a.delivery_id
        limit :look_at + 1
    ) s
),
page as (
    select s.*, e.ordering_key
    from scan s
    left join lateral (
        select events.type, events.source_id, events.ordering_key
        from events
        where events.id = s.event_id
        limit 1
    ) e on true
    where s.place <= :look_at
      and (:endings::text[] is null or s.ending = any(:endings))
      and (:reasons::text[] is null or s.reason = any(:reasons))
      and (:destination_ids::uuid[] is null or s.destination_id = any(:destination_ids))
      and (:route_ids::uuid[] is null or s.route_id = any(:route_ids))
      and (:source_ids::uuid[] is null or e.source_id = any(:source_ids))
      and (:types::text[] is null or e.type ~ any(:types))
      and (:http_statuses::smallint[] is null or s.http_status = any(:http_statuses))
      and (:replay_ids::uuid[] is null or s.replay_id = any(:replay_ids))
      and s.ended_at <= :ended_by
      and (:except_replay_id::uuid is null or s.replay_id is distinct from :except_replay_id)
      and (:resolved::boolean is null
           or :resolved = exists (select from settled_dead_letters r where r.delivery_id = s.delivery_id))
)
