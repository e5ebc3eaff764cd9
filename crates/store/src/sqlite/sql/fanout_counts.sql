-- :limit how many are counted at most; below zero: all
-- A dead letter counts as what it was settled by: only of those it is looked up.
select
  iif(ending = 'dead_letter',
    coalesce((select iif(s.delivered_by is null, 'dismissed', 'delivered')
              from settled_dead_letters s
              where s.delivery_id = ended.delivery_id), ending),
    ending) as counts_as,
  count(*), max(ended_at)
from (
    select ending, ended_at, delivery_id
    from attempts
    where event_id = :event_id
      and ending is not null                -- read from the index alone
      and (replay_id is null or origin = x'')   -- replays are not its fan-out, what a backfill made is
    limit :limit
) ended
group by counts_as
