-- :since a version, :after a destination
select id
from destinations
where account_id = :account_id and version > :since and id > :after
union
select destination_id
from routes
where account_id = :account_id and version > :since and destination_id > :after
order by 1
limit :limit
