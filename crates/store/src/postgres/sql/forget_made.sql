-- What a replay has made, but for what waits. Looked up one by one: `exists` might be answered by reading all that waits.
with scan as materialized (
    select r.delivery_id
    from replayed r
    where r.replay_id = :replay_id and r.delivery_id >= :from_delivery_id
    order by r.delivery_id
    limit :limit + 1
),
ended as materialized (
    select s.delivery_id
    from (select scan.delivery_id from scan order by scan.delivery_id limit :limit) s
    left join lateral (
        select true as yes
        from queue q
        where q.account_id = :account_id and q.delivery_id = s.delivery_id
        limit 1
    ) waits on true
    where waits.yes is null
),
gone as (
    delete from replayed r
    where r.replay_id = :replay_id
      and r.delivery_id = any(array(select ended.delivery_id from ended))
    returning 1
)
select (select count(*) from scan) as looked_at,
       (select count(*) from gone) as gone,
       (
           select scan.delivery_id from scan order by scan.delivery_id offset :limit limit 1
       ) as next_delivery_id                                   -- the first that was left
