-- Deliveries from :from_delivery_id on, for the days.
select a.number is not null as attempted, a.outcome, a.http_status,
       width_bucket(a.duration_us, :bucket_bounds) as bucket, a.ending, a.reason, count(*) as count,
       a.account_id, a.destination_id,
       case when a.ending = 'delivered'
            then width_bucket(a.started_at + a.duration_us - made_at_us(a.delivery_id), :bucket_bounds)
       end as delivery_bucket
from attempts a
where a.attempt_id >= :from_attempt_id and a.attempt_id < :below_attempt_id
  and a.delivery_id >= :from_delivery_id
group by 1, 2, 3, 4, 5, 6, 8, 9, 10
