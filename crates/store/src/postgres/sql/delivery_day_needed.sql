-- Whether something of these deliveries waits. One step to each account that has something waiting.
with recursive owner (account_id) as (
    (select q.account_id from queue q order by q.account_id limit 1)
    union all
    select (select q.account_id from queue q where q.account_id > o.account_id order by q.account_id limit 1)
    from owner o
    where o.account_id is not null
)
select exists (
    select from owner o
    where exists (
        select from queue q
        where q.account_id = o.account_id and q.delivery_id >= :from_id and q.delivery_id < :below_id
    )
) as needed
