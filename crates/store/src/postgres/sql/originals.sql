-- $1 account, $2 ids below this, $3 and above this, $4 entries to look at, $5 rows wanted
-- What narrows the scan: $6 dead letters alone, $7 the one destination, $8 events
-- What is looked for in it: $9 endings, $10 reasons, $11 destinations, $12 routes, $13 sources, $14 types as regular
-- expressions, $15 HTTP statuses, $16 replays, $17 ended at this time or before, $18 not made by this replay
-- What has ended, oldest first. An unused filter is null, known when the statement is planned, and so costs nothing.
with scan as materialized (
    select s.*, row_number() over (order by s.delivery_id) as place
    from (
        select a.delivery_id, a.origin, a.event_id, a.destination_id, a.route_id, a.replay_id, a.http_status, a.ending,
               a.reason, a.ended_at
        from attempts a
        where a.account_id = $1
          and a.delivery_id < $2 and a.delivery_id > $3
          and a.ending is not null
          and ($6::boolean is not true or (a.ending = 'dead_letter' and not a.late))
          and ($7::uuid is null or a.destination_id = $7)
          and ($8::uuid[] is null or a.event_id = any($8))
        order by a.delivery_id
        limit $4 + 1
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
    where s.place <= $4
      and ($9::text[] is null or s.ending = any($9))
      and ($10::text[] is null or s.reason = any($10))
      and ($11::uuid[] is null or s.destination_id = any($11))
      and ($12::uuid[] is null or s.route_id = any($12))
      and ($13::uuid[] is null or e.source_id = any($13))
      and ($14::text[] is null or e.type ~ any($14))
      and ($15::smallint[] is null or s.http_status = any($15))
      and ($16::uuid[] is null or s.replay_id = any($16))
      and s.ended_at <= $17
      and ($18::uuid is null or s.replay_id is distinct from $18)
)
