-- What a replay has made, newest first: as many ids as a page looks up, and where that ended if there are more.
select delivery_id
from replayed
where replay_id = :replay_id
  and delivery_id < :before
  and delivery_id >= :from
order by delivery_id desc
limit 2 offset :looked_up
