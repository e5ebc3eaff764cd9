-- $1 account, $2 destination, $3 reason and $4 HTTP status of the group before, $5 groups, $6 to be counted of one,
-- $7 of all
-- A walk that steps from group to group by the index: the next status, else the next reason, else the next
-- destination. Of each, a bounded number is counted. Those without a status are asked for in the order of the index:
-- of the others, none has it, and some would have to be read from end to end.
with recursive groups as (
    select $2::uuid as destination_id, $3::text as reason, $4::smallint as http_status, null::uuid as oldest,
           null::uuid as newest, 0::bigint as counted, 0::bigint as at_most, $7::bigint as left_to_count, 0::bigint as place
    union all
    select n.destination_id, n.reason, n.http_status, n.delivery_id, l.delivery_id, c.counted, c.at_most,
           greatest(g.left_to_count - least(c.counted, c.at_most), 0), g.place + 1
    from groups g
    cross join lateral (
        select next.*
        from (
            (
                select a.destination_id, a.reason, a.http_status, a.delivery_id
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter'
                  and a.destination_id = g.destination_id and a.reason = g.reason and a.http_status > coalesce(g.http_status, 0)
                order by a.http_status nulls first, a.delivery_id
                limit 1
            )
            union all
            (
                select a.destination_id, a.reason, a.http_status, a.delivery_id
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter'
                  and a.destination_id = g.destination_id and a.reason > g.reason
                order by a.reason, a.http_status nulls first, a.delivery_id
                limit 1
            )
            union all
            (
                select a.destination_id, a.reason, a.http_status, a.delivery_id
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter'
                  and a.destination_id > g.destination_id
                order by a.destination_id, a.reason, a.http_status nulls first, a.delivery_id
                limit 1
            )
        ) next
        order by next.destination_id, next.reason, next.http_status nulls first
        limit 1
    ) n
    cross join lateral (
        select newest.delivery_id
        from (
            (
                select a.delivery_id
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter' and a.destination_id = n.destination_id
                  and a.reason = n.reason and a.http_status = n.http_status
                order by a.delivery_id desc
                limit 1
            )
            union all
            (
                select a.delivery_id
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter' and a.destination_id = n.destination_id
                  and a.reason = n.reason and a.http_status is null and n.http_status is null
                order by a.http_status desc nulls last, a.delivery_id desc
                limit 1
            )
        ) newest
        limit 1
    ) l
    cross join lateral (
        select count(*) as counted, b.at_most
        from (select greatest(least(g.left_to_count, $6), 1) as at_most) b
        left join lateral (
            select 1 as one
            from (
                select 1
                from attempts a
                where a.account_id = $1 and a.ending = 'dead_letter' and a.destination_id = n.destination_id
                  and a.reason = n.reason and a.http_status = n.http_status
                union all
                (
                    select 1
                    from attempts a
                    where a.account_id = $1 and a.ending = 'dead_letter' and a.destination_id = n.destination_id
                      and a.reason = n.reason and a.http_status is null and n.http_status is null
                    order by a.http_status nulls first, a.delivery_id
                )
            ) all_of_it
            limit b.at_most + 1
        ) seen on true
        group by b.at_most
    ) c
    where g.place < $5
)
select g.destination_id, g.reason, g.http_status, g.oldest, g.newest, least(g.counted, g.at_most), g.counted <= g.at_most
from groups g
where g.place > 0
order by g.place
