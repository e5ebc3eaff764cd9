-- A row for each node: nodes that settle deliveries of one replay do not wait for each other.
insert into replay_counts as c (replay_id, node_id, delivered, dead_letter)
select n.replay_id, :node_id, n.delivered, n.dead_letter
from unnest(:replay_id, :delivered, :dead_letter) as n (replay_id, delivered, dead_letter)
on conflict (replay_id, node_id) do update
set delivered = c.delivered + excluded.delivered, dead_letter = c.dead_letter + excluded.dead_letter
