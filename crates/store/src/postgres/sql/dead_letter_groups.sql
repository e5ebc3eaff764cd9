-- Read in the order of the key, which ends with the day: as many rows as those groups have days.
select c.destination_id, c.reason, nullif(c.http_status, 0) as http_status, nullif(c.outcome, '') as outcome,
       (array_agg(c.oldest order by c.day))[1] as oldest, (array_agg(c.newest order by c.day desc))[1] as newest,
       sum(c.count)::bigint as count
from dead_letter_counts c
where c.account_id = :account_id
  and (c.destination_id, c.reason, c.http_status, c.outcome)
      > (:after_destination_id, :after_reason, :after_http_status, :after_outcome)
  and (:destination_id::uuid is null or c.destination_id = :destination_id)
  and c.day >= :from_day
group by c.destination_id, c.reason, c.http_status, c.outcome
order by c.destination_id, c.reason, c.http_status, c.outcome
limit :limit
