-- By the first entry of each: all that follow it wait for it.
select c.account_id
from audit_chains c
cross join lateral (
    select e.id
    from audit_entries e
    where e.account_id = c.account_id and e.number > c.forgotten_number
    order by e.number
    limit 1
) first
where first.id < :before_id
order by c.account_id
limit :limit
