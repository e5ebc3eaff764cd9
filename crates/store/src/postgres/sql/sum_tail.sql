-- Of one destination, or of all. No more than :limit facts of any account are looked at, and as many events.
with scan as materialized (
    select a.account_id, a.destination_id, a.number, a.outcome, a.http_status, a.duration_us, a.ending, a.reason
    from attempts a
    where a.attempt_id >= :from_attempt_id
      and a.delivery_id >= :from_delivery_id
    limit :limit + 1
),
came as materialized (
    select count(*) as events, coalesce(sum(e.deliveries), 0)::bigint as deliveries
    from (
        select events.deliveries
        from events
        where events.account_id = :account_id and events.id >= :from_event_id
        limit :limit + 1
    ) e
)
select s.attempted, s.outcome, s.http_status, s.bucket, s.ending, s.reason, s.count,
       (select count(*) from scan) as facts, came.events, came.deliveries
from came
left join (
    select scan.number is not null as attempted, scan.outcome, scan.http_status,
           width_bucket(scan.duration_us, :bucket_bounds) as bucket, scan.ending, scan.reason, count(*) as count
    from scan
    where scan.account_id = :account_id
      and (:destination_id::uuid is null or scan.destination_id = :destination_id)
    group by 1, 2, 3, 4, 5, 6
) s on true
