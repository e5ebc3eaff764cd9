-- The first :limit events from one on and below another, their deliveries, and the last of them.
select count(*), coalesce(sum(deliveries), 0), max(id)
from (
    select id, deliveries
    from events
    where account_id = :account_id and id >= :from and id < :below
    order by id
    limit :limit
)
