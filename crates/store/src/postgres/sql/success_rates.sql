-- $1 destinations, $2 attempts since then, $3 deliveries from here on (for the days), $4 facts to look at for each
select (count(*) filter (where a.outcome = 'success'))::int4, count(a.outcome)::int4
from unnest($1) with ordinality as d (id, place)
left join lateral (
    select newest.outcome
    from (
        select attempts.outcome, attempts.number, attempts.started_at
        from attempts
        where attempts.destination_id = d.id and attempts.delivery_id >= $3
        order by attempts.delivery_id desc          -- as the index has them: which attempts of the last one, no matter
        limit $4
    ) newest
    where newest.number is not null and newest.started_at >= $2 and newest.outcome <> 'throttled'
) a on true
group by d.place
order by d.place
