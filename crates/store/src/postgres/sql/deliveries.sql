-- $1 account, $2 ids below this, $3 and not below this, $4 entries to look at, $5 rows wanted
-- What narrows the scan: $6 waiting ones wanted, $7 endings wanted, $8 the one destination, $9 events
-- What is looked for in it: $10 without attempts wanted, $11 with attempts wanted, $12 endings, $13 reasons,
-- $14 destinations, $15 routes, $16 sources, $17 types as regular expressions, $18 HTTP statuses, $19 replays
-- And again what narrows the scan: $20 dead letters alone
-- One statement over queue and endings, so that a delivery that moves is neither lost nor twice. An unused filter is
-- null, known when the statement is planned, and so costs nothing.
with scan as materialized (
    select s.*, row_number() over (order by s.delivery_id desc) as place
    from (
        (
            select q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id,
                   q.origin, q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome,
                   q.last_http_status, q.created_at, q.available_at, q.payload_bytes, q.sequence,
                   null::text as ending, null::text as reason, null::bigint as ended_at
            from queue q
            where q.account_id = $1
              and q.delivery_id < $2 and q.delivery_id >= $3
              and $6
              and ($9::uuid[] is null or q.event_id = any($9))
            order by q.delivery_id desc
            limit $4 + 1
        )
        union all
        (
            select null, a.delivery_id, a.account_id, a.event_id, a.destination_id, a.route_id, a.replay_id,
                   a.origin, null, null, null, a.attempts, a.spent, null, a.outcome,
                   a.http_status, null, null, null, a.sequence,
                   a.ending, a.reason, a.ended_at
            from attempts a
            where a.account_id = $1
              and a.delivery_id < $2 and a.delivery_id >= $3
              and a.ending is not null
              and ($20::boolean is not true or (a.ending = 'dead_letter' and not a.late))
              and $7
              and ($8::uuid is null or a.destination_id = $8)
              and ($9::uuid[] is null or a.event_id = any($9))
            order by a.delivery_id desc
            limit $4 + 1
        )
    ) s
    order by s.delivery_id desc
    limit $4 + 1
),
looked as (
    select scan.delivery_id, scan.place from scan
),
