-- What a replay has made, from a delivery on, and whether that waits.
select r.origin, r.delivery_id,
  exists (select 1 from queue q where q.account_id = :account_id and q.delivery_id = r.delivery_id)
from replayed r
where r.replay_id = :replay_id
  and r.delivery_id >= :from
order by r.delivery_id
limit :limit
