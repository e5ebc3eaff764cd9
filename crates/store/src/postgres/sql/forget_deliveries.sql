with gone as (
    delete from attempts where delivery_id = any(:delivery_ids) returning 1
)
select count(*) as gone from gone
