-- Those that wait or have ended, by destination; and without one, those that are not there.
select d.destination_id,
       count(*) as count,
       case when d.destination_id is null then array_agg(given.id order by given.id) end as unknown
from unnest(:delivery_ids) as given (id)
left join lateral (
    select q.destination_id
    from queue q
    where q.account_id = :account_id and q.delivery_id = given.id
    union all
    select a.destination_id
    from attempts a
    where a.account_id = :account_id and a.delivery_id = given.id and a.ending is not null
    limit 1
) d on true
group by d.destination_id
order by d.destination_id
