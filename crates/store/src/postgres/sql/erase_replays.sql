-- Those that say nothing any more, with their counts.
with going as materialized (
    select r.id from replays r where r.account_id = :account_id limit :limit
),
counts as (
    delete from replay_counts using going where replay_counts.replay_id = going.id returning 1
),
gone as (
    delete from replays using going where replays.id = going.id returning 1
)
select (select count(*) from counts) + (select count(*) from gone) as gone
