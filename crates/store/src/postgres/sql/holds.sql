select reason, since, until, detail, step, ended_at
from holds
where destination_id = :destination_id and (since, reason) < (:before_since, :before_reason)
order by since desc, reason desc
limit :limit
