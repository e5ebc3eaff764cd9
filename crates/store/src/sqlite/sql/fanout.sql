-- ?1 event
select ending, count(*), max(ended_at)
from attempts
where event_id = ?1
  and ending is not null                    -- read from the index alone
  and replay_id is null                     -- replays are not its fan-out
group by ending
