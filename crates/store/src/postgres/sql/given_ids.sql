-- The ids that a replay was made with.
select given.id
from replays r
cross join lateral unnest(r.delivery_ids) as given (id)
where r.id = :replay_id and given.id > :after_delivery_id
order by given.id
limit :limit
