-- What narrows the scan: whether waiting and ended ones are wanted, the one destination, events, dead letters alone.
-- What is looked for in it is in deliveries_page.sql; :look_at entries are looked at for :limit rows.
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
            where q.account_id = :account_id
              and q.delivery_id < :below_delivery_id and q.delivery_id >= :from_delivery_id
              and :waiting
              and (:event_ids::uuid[] is null or q.event_id = any(:event_ids))
            order by q.delivery_id desc
            limit :look_at + 1
        )
        union all
        (
            select null, a.delivery_id, a.account_id, a.event_id, a.destination_id, a.route_id, a.replay_id,
                   a.origin, null, null, null, a.attempts, a.spent, null, a.outcome,
                   a.http_status, null, null, null, a.sequence,
                   a.ending, a.reason, a.ended_at
            from attempts a
            where a.account_id = :account_id
              and a.delivery_id < :below_delivery_id and a.delivery_id >= :from_delivery_id
              and a.ending is not null
              and (:dead_letters_alone::boolean is not true or (a.ending = 'dead_letter' and not a.late))
              and :ended
              and (:destination_id::uuid is null or a.destination_id = :destination_id)
              and (:event_ids::uuid[] is null or a.event_id = any(:event_ids))
            order by a.delivery_id desc
            limit :look_at + 1
        )
    ) s
    order by s.delivery_id desc
    limit :look_at + 1
),
looked as (
    select scan.delivery_id, scan.place from scan
),
