select id
from destinations
where account_id = :account_id and version > :since_version and id > :after_destination_id
union
select destination_id
from routes
where account_id = :account_id and version > :since_version and destination_id > :after_destination_id
order by 1
limit :limit
