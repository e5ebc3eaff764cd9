-- Some deliveries of the first destinations of an account.
select distinct a.delivery_id
from (
  select d.id
  from destinations d indexed by destinations_version
  where d.account_id = :account_id
  limit :destinations
) own
join attempts a indexed by attempts_destination on a.destination_id = own.id
limit :limit
