-- Of the first destinations of an account.
with gone as (
    delete from holds
    where ctid = any(array(
        select h.ctid
        from (
            select d.id
            from destinations d
            where d.account_id = :account_id
            order by d.account_id, d.id desc                    -- as the index has them
            limit :destinations
        ) own
        join holds h on h.destination_id = own.id
        limit :limit
    ))
    returning 1
)
select count(*) as gone from gone
