-- :since attempts, :first_delivery and :first_row to look at, :limit facts to look at
-- Which facts they are is read from the index alone; only those that were written lately are looked up.
select count(*) filter (where a.outcome = 'success'), count(*)
from (
    select rowid as place
    from attempts
    where destination_id = :destination_id and delivery_id >= :first_delivery
    order by delivery_id desc, rowid desc
    limit :limit
) newest
cross join attempts a on a.rowid = newest.place
where newest.place >= :first_row
  and a.number is not null
  and a.started_at >= :since
  and a.outcome <> 'throttled'
