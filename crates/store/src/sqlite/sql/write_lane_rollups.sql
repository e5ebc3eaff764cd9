-- Of all nodes: under the nil one.
insert into lane_rollups (account_id, destination_id, span, starts_at, node_id, doc)
values (:account_id, :destination_id, :span, :starts_at, zeroblob(16), :doc)
on conflict (account_id, destination_id, span, starts_at, node_id) do update set doc = excluded.doc
