-- One of which nothing is left goes with its counts.
with gone as (
    delete from replays r
    where r.id = :replay_id
      and not exists (select from replayed m where m.replay_id = :replay_id)
    returning r.id
),
counts as (
    delete from replay_counts c
    using gone
    where c.replay_id = gone.id
    returning 1
)
select (select count(*) from gone) + (select count(*) from counts) as gone
