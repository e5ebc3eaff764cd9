-- :since, :reason the hold before which to look
select reason, since, until, detail, step, ended_at
from holds
where destination_id = :destination_id
  and (since, reason) < (:since, :reason)
order by since desc, reason desc
limit :limit
