with gone as (
    delete from events where id = any(:event_ids) returning 1
)
select count(*) as gone from gone
