-- The payload and its checksum come last in the row: where it is too large its pages are not even read.
select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
  metadata, case when size_bytes <= :carried_bytes then payload end, size_bytes,
  case when size_bytes <= :carried_bytes then payload_crc end, payload_erased_at,
  case when size_bytes <= :carried_bytes then sealed_headers end
from events
where id = :id
