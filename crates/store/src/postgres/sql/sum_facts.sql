-- $1 attempts from here on, $2 and below this, $3 deliveries from here on (for the days), $4 where buckets end
select a.number is not null, a.outcome, a.http_status, width_bucket(a.duration_us, $4), a.ending, a.reason, count(*),
       a.account_id, a.destination_id
from attempts a
where a.attempt_id >= $1 and a.attempt_id < $2
  and a.delivery_id >= $3
group by 1, 2, 3, 4, 5, 6, 8, 9
