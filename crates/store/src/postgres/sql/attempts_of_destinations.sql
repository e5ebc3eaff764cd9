-- Some deliveries of the first destinations of an account. Each destination is looked up by itself.
select distinct t.delivery_id
from (
    select d.id
    from destinations d
    where d.account_id = :account_id
    order by d.account_id, d.id desc                            -- as the index has them
    limit :destinations
) own
cross join lateral (
    select a.delivery_id
    from attempts a
    where a.destination_id = own.id
    limit :limit
) t
limit :limit
