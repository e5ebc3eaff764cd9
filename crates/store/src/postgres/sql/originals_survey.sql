-- Follows the scan: how many are wanted, and whether that is all.
select p.destination_id, p.count, (select count(*) from scan) <= :look_at as exact
from (select) always
left join (
    select page.destination_id, count(*)
    from page
    group by page.destination_id
) p on true
order by p.destination_id
