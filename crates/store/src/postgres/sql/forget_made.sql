-- $1 account, $2 replay, $3 deliveries from here on, $4 at most so many
-- What a replay has made, but for what waits. Looked up one by one: `exists` might be answered by reading all that waits.
with scan as materialized (
    select r.delivery_id
    from replayed r
    where r.replay_id = $2 and r.delivery_id >= $3
    order by r.delivery_id
    limit $4 + 1
),
ended as materialized (
    select s.delivery_id
    from (select scan.delivery_id from scan order by scan.delivery_id limit $4) s
    left join lateral (
        select true as yes
        from queue q
        where q.account_id = $1 and q.delivery_id = s.delivery_id
        limit 1
    ) waits on true
    where waits.yes is null
),
gone as (
    delete from replayed r
    where r.replay_id = $2
      and r.delivery_id = any(array(select ended.delivery_id from ended))
    returning 1
)
select (select count(*) from scan),
       (select count(*) from gone),
       (select scan.delivery_id from scan order by scan.delivery_id offset $4 limit 1)   -- the first that was left
