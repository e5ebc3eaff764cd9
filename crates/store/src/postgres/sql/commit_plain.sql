/* posthaste:ingest */
-- As commit.sql, for the batches that most are: without keys, tags, other routes, expansions, numbers and seals. What is not in a
-- statement need not be started: for a batch of one that is a third of it. Nothing in it looks for conflicts: where an id is
-- there already it fails as a whole, and commit.sql is asked. Columns are read by their place: unnest would write each of them
-- down first, which took twice as long for a row.
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
    from (
        select (:event_id)[place] as id, (:event_account_id)[place] as account_id,
               (:event_account_version)[place] as account_version, (:event_source_id)[place] as source_id,
               (:event_type)[place] as type, (:event_idempotency_key)[place] as idempotency_key,
               (:event_content_type)[place] as content_type, (:event_headers)[place] as headers,
               (:event_payload)[place] as payload, (:event_ordering_key)[place] as ordering_key,
               (:event_metadata)[place] as metadata, (:event_received_at)[place] as received_at,
               (:event_deliver_at)[place] as deliver_at, (:event_deliveries)[place] as deliveries,
               (:event_size_bytes)[place] as size_bytes, (:event_payload_crc)[place] as payload_crc
        from generate_series(1, cardinality(:event_id)) as place
    ) e
    join current on current.id = e.account_id and current.version = e.account_version
    returning id, account_id, deliver_at, size_bytes
),
promised as (
    insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
                       attempts, spent, tls_errors, created_at, available_at, payload_bytes)
    select d.shard, d.destination_id, d.track, d.rank, d.id, written.account_id, d.event_id, d.route_id, d.id, d.due_at,
           0, 0, 0, d.created_at, greatest(d.created_at, written.deliver_at), written.size_bytes
    from (
        select (:delivery_id)[place] as id, (:delivery_event_id)[place] as event_id, (:delivery_shard)[place] as shard,
               (:delivery_destination_id)[place] as destination_id, (:delivery_route_id)[place] as route_id,
               (:delivery_track)[place] as track, (:delivery_rank)[place] as rank, (:delivery_due_at)[place] as due_at,
               (:delivery_created_at)[place] as created_at
        from generate_series(1, cardinality(:delivery_id)) as place
    ) d
    join written on written.id = d.event_id
)
select id
from written
