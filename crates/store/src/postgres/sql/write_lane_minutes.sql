-- A node's own: nobody else writes these rows, and no term guards them.
insert into lane_rollups (account_id, destination_id, span, starts_at, node_id, doc)
select r.account_id, r.destination_id, 'minute', r.starts_at, :node_id, r.doc
from unnest(:account_id, :destination_id, :starts_at, :doc) as r (account_id, destination_id, starts_at, doc)
on conflict (account_id, destination_id, span, starts_at, node_id) do update set doc = excluded.doc
