-- Of one destination, or of all. No more than :limit facts of any account are looked at, as they lie in their tables, which is
-- about as they were written; and as many events. Where there may be more, the newest that was looked at is told.
with scan as materialized (
    select a.attempt_id, a.account_id, a.destination_id, a.number, a.outcome, a.http_status, a.duration_us, a.ending,
           a.reason, a.started_at, a.delivery_id
    from attempts a
    where a.attempt_id >= :from_attempt_id
      and a.delivery_id >= :from_delivery_id
    limit :limit
),
looked as materialized (
    select case when (select count(*) from scan) >= :limit
                then (select scan.attempt_id from scan order by scan.attempt_id desc limit 1)
           end as newest_fact
),
came as materialized (
    select events.id, events.deliveries
    from events
    where events.account_id = :account_id
      and events.id >= :from_event_id
      and events.id < coalesce((select looked.newest_fact from looked), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by events.id
    limit :limit
)
select s.attempted, s.outcome, s.http_status, s.bucket, s.ending, s.reason, s.count, s.delivery_bucket,
       looked.newest_fact, c.events, c.deliveries, c.newest_event
from looked
cross join (
    select count(*) as events, coalesce(sum(came.deliveries), 0)::bigint as deliveries,
           case when count(*) >= :limit
                then (select last.id from came last order by last.id desc limit 1)
           end as newest_event
    from came
) c
left join (
    select scan.number is not null as attempted, scan.outcome, scan.http_status,
           width_bucket(scan.duration_us, :bucket_bounds) as bucket, scan.ending, scan.reason, count(*) as count,
           case when scan.ending = 'delivered'
                then width_bucket(scan.started_at + scan.duration_us - made_at_us(scan.delivery_id), :bucket_bounds)
           end as delivery_bucket
    from scan
    where scan.account_id = :account_id
      and (:destination_id::uuid is null or scan.destination_id = :destination_id)
    group by 1, 2, 3, 4, 5, 6, 8
) s on true
