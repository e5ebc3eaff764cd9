select e.content_type, e.size_bytes, e.payload, e.payload_crc, e.payload_erased_at, e.sealed_headers
from events e
where e.account_id = :account_id and e.id = :event_id
