-- By their ids: they tell in which days the events lie.
with gone as (
    delete from events
    where id = any(array(
        select e.id from events e where e.account_id = :account_id order by e.id limit :limit
    ))
    returning 1
)
select count(*) as gone from gone
