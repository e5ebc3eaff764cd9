-- $1 account, $2 since, $3 behind which destination, $4 limit
select id
from destinations
where account_id = $1 and version > $2 and id > $3
union
select destination_id
from routes
where account_id = $1 and version > $2 and destination_id > $3
order by 1
limit $4
