-- $1 account, $2 events from here on, $3 and below this, $4 at most so many
-- Looked up one by one: `exists` might be answered by reading all that waits.
select s.id, waiting.yes is not null or expanding.yes is not null
from (
    select e.id
    from events e
    where e.account_id = $1
      and e.id >= $2 and e.id < $3
    order by e.id
    limit $4
) s
left join lateral (select true as yes from queue q where q.event_id = s.id limit 1) waiting on true
left join lateral (select true as yes from expansions x where x.event_id = s.id limit 1) expanding on true
order by s.id
