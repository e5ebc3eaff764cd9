-- Those of some destinations and minutes that are over, and from now on of none: what is settled later for such a
-- minute begins another row.
with over as (
    select distinct minute, destination_id
    from dead_letter_minutes
    where minute < :before
    order by minute, destination_id
    limit :limit
)
delete from dead_letter_minutes m
using over
where m.minute = over.minute and m.destination_id = over.destination_id
returning m.account_id, m.destination_id, m.minute, m.reason, m.http_status, m.count
