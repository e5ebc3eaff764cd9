-- The length of a blob stands in the head of its row: its pages are not read.
select size_bytes, length(payload), payload_erased_at
from events
where id = :id
  and account_id = :account_id
