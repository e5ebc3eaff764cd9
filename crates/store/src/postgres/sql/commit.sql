/* posthaste:ingest */
-- By columns: the accounts with the versions their events were matched at, then keys, events and deliveries.
-- One round trip, one flush. The order of locks is fixed, and each step feeds the next: keys sorted, then what really
-- was inserted, then the numbers it takes, by destination. Unsorted keys: 18 % of overlapping batches deadlocked;
-- sorted: none of 29,378.
with current as materialized (
    select a.id, a.version
    from unnest(:current_account_id, :current_version) as a (id, version)
    where a.version = (select accounts.version from accounts where accounts.id = a.id and accounts.deleted_at is null)
),
keys as (
    insert into idempotency (scope, key_hash, body_hash, event_id, deliveries, created_at)
    select k.scope, k.key_hash, k.body_hash, k.event_id, k.deliveries, :now
    from unnest(:key_scope, :key_hash, :key_body_hash, :key_event_id, :key_account_id, :key_account_version,
                :key_deliveries) with ordinality
        as k (scope, key_hash, body_hash, event_id, account_id, account_version, deliveries, place)
    join current on current.id = k.account_id and current.version = k.account_version
    order by k.scope, k.key_hash, k.place                   -- of two with the same key, the first wins
    on conflict do nothing
    returning event_id
),
written as (
    insert into events (id, account_id, source_id, type, idempotency_key, content_type, headers, payload,
                        ordering_key, metadata, received_at, deliver_at, deliveries, size_bytes, payload_crc,
                        other_routes, tags, sealed_headers)
    select e.id, e.account_id, e.source_id, e.type, e.idempotency_key, e.content_type, e.headers, e.payload,
           e.ordering_key, e.metadata, e.received_at, e.deliver_at, e.deliveries, e.size_bytes, e.payload_crc,
           e.other_routes, e.tags, e.sealed_headers
    from unnest(:event_id, :event_account_id, :event_account_version, :event_keyed, :event_source_id, :event_type,
                :event_idempotency_key, :event_content_type, :event_headers, :event_payload, :event_ordering_key,
                :event_metadata, :event_received_at, :event_deliver_at, :event_deliveries, :event_size_bytes,
                :event_payload_crc, :event_other_routes, :event_tags, :event_sealed_headers)
        as e (id, account_id, account_version, keyed, source_id, type, idempotency_key, content_type, headers,
              payload, ordering_key, metadata, received_at, deliver_at, deliveries, size_bytes, payload_crc,
              other_routes, tags, sealed_headers)
    join current on current.id = e.account_id and current.version = e.account_version
    where not e.keyed or e.id in (select event_id from keys)
    on conflict do nothing                                   -- the same batch again: its deliveries may have ended since
    returning id, account_id, deliver_at, size_bytes, deliveries, other_routes
),
expanding as (
    insert into expanding_events (event_id, account_id, account_version, deliveries, inline_destinations, other_routes,
                                  created_at)
    select large.id, large.account_id, large.version, cardinality(large.destinations), large.destinations,
           large.other_routes, :now
    from (
        select written.id, written.account_id, current.version, written.other_routes,
               array(
                   select d.destination_id
                   from unnest(:delivery_event_id, :delivery_destination_id) as d (event_id, destination_id)
                   where d.event_id = written.id
               ) as destinations
        from written
        join current on current.id = written.account_id
        where written.deliveries is null
        offset 0                                             -- computed once a row
    ) large
),
ordered as materialized (
    select d.id, d.destination_id,
           row_number() over (partition by d.destination_id order by d.place desc) - 1 as behind
    from unnest(:delivery_id, :delivery_event_id, :delivery_destination_id, :delivery_sequenced) with ordinality
        as d (id, event_id, destination_id, sequenced, place)
    join written on written.id = d.event_id
    where d.sequenced
),
numbers as (
    insert into sequences as s (destination_id, last)
    select ordered.destination_id, count(*)
    from ordered
    group by ordered.destination_id
    order by ordered.destination_id
    on conflict (destination_id) do update set last = s.last + excluded.last
    returning s.destination_id, s.last                       -- kept until the commit: the order of numbers is its order
),
promised as (
    insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
                       attempts, spent, tls_errors, created_at, available_at, payload_bytes, sequence)
    select d.shard, d.destination_id, d.track,
           case when d.track = 0 then d.rank else coalesce(o.sequence, d.rank) end,   -- 0: in no order
           d.id, written.account_id, d.event_id,
           d.route_id, d.id, d.due_at, 0, 0, 0, d.created_at, greatest(d.created_at, written.deliver_at),
           written.size_bytes, o.sequence
    from unnest(:delivery_id, :delivery_event_id, :delivery_shard, :delivery_destination_id, :delivery_route_id,
                :delivery_track, :delivery_rank, :delivery_due_at, :delivery_created_at)
        as d (id, event_id, shard, destination_id, route_id, track, rank, due_at, created_at)
    join written on written.id = d.event_id
    left join (
        select ordered.id, numbers.last - ordered.behind as sequence
        from ordered
        join numbers on numbers.destination_id = ordered.destination_id
    ) o on o.id = d.id
)
