-- The same scan, over what one replay has made: each is looked up, and is either waiting or ended.
-- What is not wanted leaves a gap in it, so how far the scan has come is told by what was made.
with made as materialized (
    select r.delivery_id, row_number() over (order by r.delivery_id desc) as place
    from replayed r
    where r.replay_id = (:replay_ids::uuid[])[1]
      and r.delivery_id < :below_delivery_id and r.delivery_id >= :from_delivery_id
    order by r.delivery_id desc
    limit :look_at + 1
),
scan as materialized (
    select s.*
    from (
        select q.*, made.place
        from made
        cross join lateral (
            select q.shard, q.delivery_id, q.account_id, q.event_id, q.destination_id, q.route_id, q.replay_id,
                   q.origin, q.track, q.rank, q.due_at, q.attempts, q.spent, q.tls_errors, q.last_outcome,
                   q.last_http_status, q.created_at, q.available_at, q.payload_bytes, q.sequence,
                   null::text as ending, null::text as reason, null::bigint as ended_at
            from queue q
            where q.account_id = :account_id and q.delivery_id = made.delivery_id
            limit 1
        ) q
        where :waiting
        union all
        select a.*, made.place
        from made
        cross join lateral (
            select null::smallint, a.delivery_id, a.account_id, a.event_id, a.destination_id, a.route_id, a.replay_id,
                   a.origin, null::bigint, null::bigint, null::bigint, a.attempts, a.spent, null::integer, a.outcome,
                   a.http_status, null::bigint, null::bigint, null::integer, a.sequence,
                   a.ending, a.reason, a.ended_at
            from attempts a
            where a.account_id = :account_id and a.delivery_id = made.delivery_id and a.ending is not null
            limit 1
        ) a
        where :ended
    ) s
    order by s.delivery_id desc
    limit :look_at + 1
),
looked as (
    select made.delivery_id, made.place from made
),
