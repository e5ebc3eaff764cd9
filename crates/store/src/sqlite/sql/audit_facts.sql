-- :delivery_id, :attempt_id the fact to look from
select a.delivery_id, a.attempt_id, a.event_id, a.ending, a.reason,
       exists (select 1 from events e where e.id = a.event_id),
       a.ending is not null
         or exists (select 1 from queue q where q.account_id = a.account_id and q.delivery_id = a.delivery_id)
         or exists (select 1 from attempts x where x.delivery_id = a.delivery_id and x.ending is not null),
       a.number is not null
         or exists (select 1 from attempts x where x.delivery_id = a.delivery_id and x.number is not null)
from attempts a
where (a.delivery_id, a.attempt_id) >= (:delivery_id, :attempt_id)
order by a.delivery_id, a.attempt_id
limit :limit
