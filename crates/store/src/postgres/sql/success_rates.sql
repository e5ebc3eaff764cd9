-- The newest :limit facts of each destination are looked at, from :from_delivery_id on (for the days).
select (count(*) filter (where a.outcome = 'success'))::int4 as successes, count(a.outcome)::int4 as attempts
from unnest(:destination_ids) with ordinality as d (id, place)
left join lateral (
    select newest.outcome
    from (
        select attempts.outcome, attempts.number, attempts.started_at
        from attempts
        where attempts.destination_id = d.id and attempts.delivery_id >= :from_delivery_id
        order by attempts.delivery_id desc          -- as the index has them: which attempts of the last one, no matter
        limit :limit
    ) newest
    where newest.number is not null and newest.started_at >= :since and newest.outcome <> 'throttled'
) a on true
group by d.place
order by d.place
