-- Whether an event that is still there has anything in this day of attempts; also true if there are too many to ask.
select count(*) > :limit
       or coalesce(bool_or(exists (
              select from ATTEMPTS_OF_DAY a where a.event_id = e.id and a.ending is not null
          )), false)
       or exists (select from ATTEMPTS_OF_DAY a where a.event_id >= :below_id and a.ending is not null) as needed
from (select events.id from events where events.id < :below_id order by events.id limit :limit + 1) e
