-- Read in the order of the key, which ends with the day: as many rows as those groups have days.
select c.destination_id, c.reason, nullif(c.http_status, 0) as http_status,
       (array_agg(c.oldest order by c.day))[1] as oldest, (array_agg(c.newest order by c.day desc))[1] as newest,
       sum(c.count)::bigint as count
from dead_letter_counts c
where c.account_id = :account_id
  and (c.destination_id, c.reason, c.http_status) > 
      (:after_destination_id, :after_reason, :after_http_status)
group by c.destination_id, c.reason, c.http_status
order by c.destination_id, c.reason, c.http_status
limit :limit
