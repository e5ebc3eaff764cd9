update attempts a
set detail = left_over.detail, detail_packed = left_over.detail_packed, answer_erased = true
from unnest(:delivery_id, :attempt_id, :detail, :detail_packed)
    as left_over (delivery_id, attempt_id, detail, detail_packed)
where a.delivery_id = left_over.delivery_id
  and a.attempt_id = left_over.attempt_id
  and a.delivery_id = any(:delivery_id)                        -- tells in which days
