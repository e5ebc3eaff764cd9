-- Looked up one by one: `exists` might be answered by reading all that waits.
select s.id, waiting.yes is not null or expanding.yes is not null as needed
from (
    select e.id
    from events e
    where e.account_id = :account_id
      and e.id >= :from_event_id and e.id < :below_event_id
    order by e.id
    limit :limit
) s
left join lateral (select true as yes from queue q where q.event_id = s.id limit 1) waiting on true
left join lateral (select true as yes from expanding_events x where x.event_id = s.id limit 1) expanding on true
order by s.id
