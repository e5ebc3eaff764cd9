select 1
from attempts
where delivery_id = :delivery_id
  and attempt_id = :attempt_id
  and not late
