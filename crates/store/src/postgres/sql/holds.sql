-- $1 destination, $2 $3 before this one, $4 at most so many
select reason, since, until, detail, step, ended_at
from holds
where destination_id = $1 and (since, reason) < ($2, $3)
order by since desc, reason desc
limit $4
