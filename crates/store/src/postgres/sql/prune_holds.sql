with old as materialized (
    select destination_id, since, reason from holds where ended_at < :ended_before limit :limit
),
gone as (
    delete from holds h using old
    where h.destination_id = old.destination_id and h.since = old.since and h.reason = old.reason
    returning 1
)
select count(*) as gone from gone
