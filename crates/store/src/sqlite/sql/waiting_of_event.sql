-- :limit how many are counted at most; below zero: all
select count(*)
from (select 1 from queue where event_id = :event_id and replay_id is null limit :limit)
