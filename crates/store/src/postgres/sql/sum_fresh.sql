-- Facts of a minute that a snapshot did not show: of what was seen, the oldest transaction that was open, the next one and
-- those open; all of them without one. What is older than all that was open is passed over by its age: only of the rest
-- is it worth while to tell its transaction, which is known by its last 32 bits, as the latest it can have been.
with moment as materialized (
    select pg_current_snapshot()::text as snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next,
           age((:seen_oldest::bigint & 4294967295)::text::xid) as oldest
),
fresh as materialized (
    select f.number is not null as attempted, f.outcome, f.http_status,
           width_bucket(f.duration_us, :bucket_bounds) as bucket, f.ending, f.reason, count(*) as count,
           f.account_id, f.destination_id,
           case when f.ending = 'delivered'
                then width_bucket(f.started_at + f.duration_us - made_at_us(f.delivery_id), :bucket_bounds)
           end as delivery_bucket
    from (
        select moment.next - ((moment.next - a.xmin::text::bigint) & 4294967295) as written_by, a.number, a.outcome,
               a.http_status, a.duration_us, a.ending, a.reason, a.account_id, a.destination_id, a.started_at,
               a.delivery_id
        from moment, attempts a
        where a.attempt_id >= :from_attempt_id and a.attempt_id < :below_attempt_id
          and a.delivery_id >= :from_delivery_id
          and (moment.oldest is null or age(a.xmin) <= moment.oldest)
    ) f
    where :seen_next::bigint is null
       or f.written_by >= :seen_next
       or f.written_by = any(:seen_open)
    group by 1, 2, 3, 4, 5, 6, 8, 9, 10
)
select moment.snapshot, fresh.*
from moment
left join fresh on true
