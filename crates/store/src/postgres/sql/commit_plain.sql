/* posthaste:ingest */
-- As commit.sql, for the batches that most are: without keys, other routes, expansions, numbers and seals. What is not in a statement need
-- not be started: for a batch of one that is a third of it.
with current as materialized (
    select a.id, a.version
    from unnest(:current_account_id, :current_version) as a (id, version)
    where a.version = (select accounts.version from accounts where accounts.id = a.id and accounts.deleted_at is null)
),
written as (
    insert into events (id, account_id, source_id, type, idempotency_key, content_type, headers, payload,
                        ordering_key, metadata, received_at, deliver_at, deliveries, size_bytes, payload_crc)
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.payload,
           e.ordering_key, e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes, e.payload_crc
    from unnest(:event_id, :event_account_id, :event_account_version, :event_source_id, :event_type,
                :event_idempotency_key, :event_content_type, :event_headers, :event_payload, :event_ordering_key,
                :event_metadata, :event_received_at, :event_deliver_at, :event_deliveries, :event_size_bytes, :event_payload_crc)
        as e (id, account_id, account_version, source_id, type, idempotency_key, content_type, headers, payload,
              ordering_key, metadata, received_at, deliver_at, deliveries, size_bytes, payload_crc)
    join current on current.id = e.account_id and current.version = e.account_version
    on conflict do nothing                                   -- the same batch again: its deliveries may have ended since
    returning id, account_id, deliver_at, size_bytes
),
promised as (
    insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
                       attempts, spent, tls_errors, created_at, available_at, payload_bytes)
    select d.shard, d.destination_id, d.track, d.rank, d.id, written.account_id, d.event_id, d.route_id, d.id, d.due_at,
           0, 0, 0, d.created_at, greatest(d.created_at, written.deliver_at), written.size_bytes
    from unnest(:delivery_id, :delivery_event_id, :delivery_shard, :delivery_destination_id, :delivery_route_id,
                :delivery_track, :delivery_rank, :delivery_due_at, :delivery_created_at)
        as d (id, event_id, shard, destination_id, route_id, track, rank, due_at, created_at)
    join written on written.id = d.event_id
)
select id
from written
