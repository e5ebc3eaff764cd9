-- Whether a filter wants the event, and the event. A filter is a list, as JSON, or null: none; see wanted_delivery.sql.
-- With the payload, and its checksum, where it is not sealed and has no more than so many bytes: -1 for none. Followed by which.
select
  case
    when :source_ids is not null
      and (e.source_id in (select unhex(value) from json_each(:source_ids))) is not true then 0
    when :idempotency_keys is not null
      and (e.idempotency_key in (select value from json_each(:idempotency_keys))) is not true then 0
    when e.received_at < :since then 0
    when e.received_at >= :until then 0
    when :types is not null and not exists (
      select 1
      from (select length(e.type) - length(replace(e.type, '.', '')) as stops)
      join json_each(:types) t
      where stops = t.value ->> 1 and e.type glob (t.value ->> 0)
        or t.value ->> 2 and stops >= t.value ->> 1
          and e.type glob (t.value ->> 0) || replace(hex(zeroblob(stops - (t.value ->> 1))), '00', '.*')
      ) then 0
    when :metadata_parts is not null
      and not exists (select 1 from json_each(:metadata_parts) where instr(e.metadata, value)) then 0
    when :unmatched and e.deliveries is not 0 then 0
    -- Last: it is looked up in the queue.
    when :fanout_complete is not null and :fanout_complete <> (
      e.deliveries is not null
        and not exists (select 1 from queue q where q.event_id = e.id and q.origin = q.delivery_id)) then 0
    else 1
  end,
  e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.ordering_key, e.received_at, e.deliver_at,
  e.headers, e.metadata, e.size_bytes, e.deliveries, e.other_routes, e.tags,
  e.payload_erased_at,
  case when e.size_bytes <= :payload_bytes and e.sealed_headers is null then e.payload end,
  case when e.size_bytes <= :payload_bytes then e.payload_crc end
from events e
