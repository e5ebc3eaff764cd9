-- Read in the order of the key, which ends with the day: as many rows as those groups have days. Ids are in the order of days.
-- :after_… the group before; :destination_id null: of all
select destination_id, reason, nullif(http_status, 0), nullif(outcome, ''), sum(count), min(oldest), max(newest)
from dead_letter_counts
where account_id = :account_id
  and (destination_id, reason, http_status, outcome)
    > (:after_destination_id, :after_reason, :after_http_status, :after_outcome)
  and (:destination_id is null or destination_id = :destination_id)
  and day >= :from_day
group by destination_id, reason, http_status, outcome
order by destination_id, reason, http_status, outcome
limit :limit
