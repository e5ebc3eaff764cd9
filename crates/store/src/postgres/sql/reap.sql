-- Waits for settlements that hold a row, and for renewals, after which a row is looked at anew.
delete from nodes
where expires_at <= now()
  and id <> :node_id
returning id
