-- Tags of a day's events that lie in no day of their own.
with gone as (
    delete from event_tags_default
    where (account_id, tag, event_id) in (
        select t.account_id, t.tag, t.event_id
        from event_tags_default t
        where t.event_id >= :from_id and t.event_id < :below_id
        limit :limit
    )
    returning 1
)
select count(*) as gone from gone
