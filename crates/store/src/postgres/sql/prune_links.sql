with old as materialized (
    select hash from sign_in_links where expires_at <= :over limit :limit
),
gone as (
    delete from sign_in_links l using old where l.hash = old.hash returning 1
)
select count(*) as gone from gone
