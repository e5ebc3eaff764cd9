insert into events (id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at,
  deliveries, size_bytes, headers, metadata, payload, payload_crc,
  other_routes, tags, sealed_headers)
values (:id, :account_id, :source_id, :type, :idempotency_key, :content_type, :ordering_key, :received_at, :deliver_at,
  :deliveries, :size_bytes, :headers, :metadata, :payload, :payload_crc,
  :other_routes, :tags, :sealed_headers)
on conflict (id) do nothing                 -- committed before: its deliveries may have ended, none is made again
