-- :limit how many are counted at most; below zero: all
select ending, count(*), max(ended_at)
from (
    select ending, ended_at
    from attempts
    where event_id = :event_id
      and ending is not null                -- read from the index alone
      and (replay_id is null or origin = x'')   -- replays are not its fan-out, what a backfill made is
    limit :limit
)
group by ending
