-- A statement of its own, so that each event is read once however many lanes have it, and the ids are known when it
-- is planned: only the days they belong to are looked at.
select e.id, e.account_id, e.source_id, e.type as event_type, e.idempotency_key, e.content_type, e.headers,
       e.ordering_key, e.metadata, e.received_at, e.deliver_at,
       case when e.size_bytes <= :max_payload_bytes then e.payload end as payload,
       e.payload_crc, e.size_bytes, e.payload_erased_at is not null as erased,
       e.sealed_headers
from events e
where e.id = any(:event_ids)
