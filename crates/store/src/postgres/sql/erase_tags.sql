with going as materialized (
    select t.tag, t.event_id
    from event_tags t
    where t.account_id = :account_id
    order by t.account_id, t.tag, t.event_id
    limit :limit
),
gone as (
    delete from event_tags t
    using going
    where t.account_id = :account_id and t.tag = going.tag and t.event_id = going.event_id
    returning 1
)
select count(*) as gone from gone
