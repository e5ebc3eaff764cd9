-- A delivery that a replay makes: its age begins now, whenever its event's was.
insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, replay_id, origin,
  due_at, created_at, available_at, payload_bytes, sequence)
values (:shard, :destination_id, :track, :rank, :delivery_id, :account_id, :event_id, :route_id, :replay_id, :origin,
  :due_at, :created_at, :created_at, :payload_bytes, :sequence)
