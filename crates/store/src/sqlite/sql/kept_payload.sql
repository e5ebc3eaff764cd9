select content_type, size_bytes, payload, payload_crc, payload_erased_at, sealed_headers
from events
where id = :id
  and account_id = :account_id
