-- A delivery that nobody has tried yet; the first of its chain.
insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, origin, due_at,
  created_at, available_at, payload_bytes, sequence)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?5, ?9, ?10, ?11, ?12, ?13)
