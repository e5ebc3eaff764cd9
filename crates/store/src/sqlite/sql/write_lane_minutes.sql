insert into lane_rollups (account_id, destination_id, span, starts_at, node_id, doc)
values (:account_id, :destination_id, 'minute', :starts_at, :node_id, :doc)
on conflict (account_id, destination_id, span, starts_at, node_id) do update set doc = excluded.doc
