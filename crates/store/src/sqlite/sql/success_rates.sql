-- ?1 destination, ?2 attempts since then, ?3 deliveries from here on, ?4 facts to look at, ?5 rows from here on
-- Which facts they are is read from the index alone; only those that were written lately are looked up.
select count(*) filter (where a.outcome = 'success'), count(*)
from (
    select rowid as place
    from attempts
    where destination_id = ?1 and delivery_id >= ?3
    order by delivery_id desc, rowid desc
    limit ?4
) newest
cross join attempts a on a.rowid = newest.place
where newest.place >= ?5
  and a.number is not null
  and a.started_at >= ?2
  and a.outcome <> 'throttled'
