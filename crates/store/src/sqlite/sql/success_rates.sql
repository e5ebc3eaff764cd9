-- ?1 destination, ?2 attempts since then, ?3 deliveries from here on, ?4 facts to look at
select count(*) filter (where outcome = 'success'), count(*)
from (
    select outcome, number, started_at
    from attempts
    where destination_id = ?1 and delivery_id >= ?3
    order by delivery_id desc, attempt_id desc
    limit ?4
)
where number is not null and started_at >= ?2 and outcome <> 'throttled'
