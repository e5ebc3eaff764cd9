-- One step: the next event below :before that has one of the tags, a list as JSON.
select max(id)
from (
  select (
    select t.event_id
    from event_tags t
    where t.account_id = :account_id and t.tag = w.value and t.event_id < :before
    order by t.event_id desc
    limit 1
  ) as id
  from json_each(:tags) w
)
