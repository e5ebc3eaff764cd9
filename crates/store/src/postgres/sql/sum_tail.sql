-- $1 account, $2 destination or null, $3 attempts from here on, $4 deliveries from here on (for the days),
-- $5 events from here on, $6 facts to look at, and events, $7 where buckets end
with scan as materialized (
    select a.account_id, a.destination_id, a.number, a.outcome, a.http_status, a.duration_us, a.ending, a.reason
    from attempts a
    where a.attempt_id >= $3
      and a.delivery_id >= $4
    limit $6 + 1
),
came as materialized (
    select count(*) as events, coalesce(sum(e.deliveries), 0)::bigint as deliveries
    from (
        select events.deliveries from events where events.account_id = $1 and events.id >= $5 limit $6 + 1
    ) e
)
select s.attempted, s.outcome, s.http_status, s.bucket, s.ending, s.reason, s.count,
       (select count(*) from scan), came.events, came.deliveries
from came
left join (
    select scan.number is not null as attempted, scan.outcome, scan.http_status,
           width_bucket(scan.duration_us, $7) as bucket, scan.ending, scan.reason, count(*) as count
    from scan
    where scan.account_id = $1
      and ($2::uuid is null or scan.destination_id = $2)
    group by 1, 2, 3, 4, 5, 6
) s on true
