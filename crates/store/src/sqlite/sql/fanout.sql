-- ?1 event, ?2 how many are counted at most
select ending, count(*), max(ended_at)
from (
    select ending, ended_at
    from attempts
    where event_id = ?1
      and ending is not null                -- read from the index alone
      and replay_id is null                 -- replays are not its fan-out
    limit ?2
)
group by ending
