select a.delivery_id, a.attempt_id, a.detail, a.detail_packed
from attempts a
where a.delivery_id = any(:delivery_ids)
  and a.detail is not null
