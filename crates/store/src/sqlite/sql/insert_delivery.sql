-- A delivery that has not been tried yet; the first of its chain.
insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
  created_at, available_at, payload_bytes, sequence)
values (:shard, :destination_id, :track, :rank, :delivery_id, :account_id, :event_id, :route_id, :delivery_id, :due_at,
  :created_at, :available_at, :payload_bytes, :sequence)
