-- A delivery that a replay makes: its age begins now, whenever its event's was.
insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, replay_id, origin,
  due_at, created_at, available_at, payload_bytes, sequence)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14)
