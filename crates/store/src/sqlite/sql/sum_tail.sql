-- Events from one on, and their deliveries.
select count(*), coalesce(sum(deliveries), 0)
from (select deliveries from events where account_id = :account_id and id >= :from limit :limit)
