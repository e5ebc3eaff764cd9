-- $1 account, $2 destination, $3 reason and $4 HTTP status of the group before, $5 groups
-- Read in the order of the key, which ends with the day: as many rows as those groups have days.
select c.destination_id, c.reason, nullif(c.http_status, 0),
       (array_agg(c.oldest order by c.day))[1], (array_agg(c.newest order by c.day desc))[1], sum(c.count)::bigint
from dead_letter_counts c
where c.account_id = $1
  and (c.destination_id, c.reason, c.http_status) > ($2, $3, $4)
group by c.destination_id, c.reason, c.http_status
order by c.destination_id, c.reason, c.http_status
limit $5
