select e.id, e.account_id, e.source_id, e.type as event_type, e.idempotency_key, e.content_type, e.headers,
       e.ordering_key, e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes, e.other_routes, e.tags,
       e.payload_erased_at, e.sealed_headers
from events e
where e.account_id = :account_id and e.id = :event_id
