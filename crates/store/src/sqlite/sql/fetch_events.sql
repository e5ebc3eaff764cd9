-- The payload and its checksum come last in the row: where it is too large its pages are not even read. What is sealed is
-- read only for whoever can have it opened.
select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
  metadata, case when size_bytes <= :carried_bytes and (:sealed or sealed_headers is null) then payload end, size_bytes,
  case when size_bytes <= :carried_bytes then payload_crc end, payload_erased_at, case when :sealed then sealed_headers end
from events
where id = :id
