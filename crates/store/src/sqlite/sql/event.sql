select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
  metadata, size_bytes, deliveries, other_routes, tags, payload_erased_at, sealed_headers
from events
where id = :id
  and account_id = :account_id
