-- The first delivery of an event to a destination, made by a backfill: it is its own origin.
insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, replay_id, origin,
  due_at, created_at, available_at, payload_bytes, sequence)
values (:shard, :destination_id, :track, :rank, :delivery_id, :account_id, :event_id, :route_id, :replay_id, :delivery_id,
  :due_at, :created_at, max(:created_at, coalesce(:deliver_at, 0)), :payload_bytes, :sequence)
