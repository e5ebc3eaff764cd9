-- What the replays of an account say of their deliveries.
with gone as (
    delete from replayed
    where ctid = any(array(
        select m.ctid
        from (select r.id from replays r where r.account_id = :account_id) own
        cross join lateral (
            select made.ctid from replayed made where made.replay_id = own.id limit :limit
        ) m
        limit :limit
    ))
    returning 1
)
select count(*) as gone from gone
