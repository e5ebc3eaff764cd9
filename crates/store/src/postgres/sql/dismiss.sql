-- Locked against retention: what is forgotten meanwhile is not settled.
insert into settled_dead_letters (delivery_id, account_id, resolved_at, dismissed_by, note)
select dead.delivery_id, :account_id, :resolved_at, :dismissed_by, :note
from (
    select a.delivery_id
    from unnest(:delivery_ids) as given (id)
    cross join lateral (
        select f.delivery_id
        from attempts f
        where f.account_id = :account_id and f.delivery_id = given.id and f.ending = 'dead_letter'
        limit 1
        for key share
    ) a
) dead
order by dead.delivery_id                                       -- two that settle the same wait for each other in order
on conflict (delivery_id) do nothing                            -- settled already: the first word stays
returning delivery_id
