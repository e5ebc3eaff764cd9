with old as materialized (
    select id from portal_links where ends_at <= :over limit :limit
),
gone as (
    delete from portal_links p using old where p.id = old.id returning 1
)
select count(*) as gone from gone
