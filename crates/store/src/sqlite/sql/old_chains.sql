-- By the first entry of each: all that follow it wait for it.
select c.account_id
from audit_chains c
where (
    select e.id
    from audit_entries e
    where e.account_id = c.account_id
      and e.number > c.forgotten_number
    order by e.number
    limit 1
  ) < :before
order by c.account_id
limit :limit
