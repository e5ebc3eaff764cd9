-- Of a day whose table of facts is gone: all but what the default partition has of it.
with gone as (
    delete from settled_dead_letters
    where delivery_id = any(array(
        select s.delivery_id
        from settled_dead_letters s
        where s.delivery_id >= :from_id and s.delivery_id < :below_id
          and not exists (select from attempts a where a.delivery_id = s.delivery_id)
        order by s.delivery_id
        limit :limit
    ))
    returning 1
)
select count(*) as gone from gone
