select content_type, size_bytes, payload, payload_crc
from events
where id = :id
  and account_id = :account_id
