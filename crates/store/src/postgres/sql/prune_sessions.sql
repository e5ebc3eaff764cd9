with old as materialized (
    select id from sessions where seen_at < :seen_before limit :limit
),
gone as (
    delete from sessions s using old where s.id = old.id returning 1
)
select count(*) as gone from gone
