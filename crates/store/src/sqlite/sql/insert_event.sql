insert into events (id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at,
  deliveries, size_bytes, headers, metadata, payload, payload_crc)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
on conflict (id) do nothing                 -- committed before: its deliveries may have ended, none is made again
