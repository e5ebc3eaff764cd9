-- Still running, held by this node, and with the cursor as it was read.
select from replays
where id = :replay_id
  and status = 'backfilling'
  and held_by = :node_id
  and cursor is not distinct from :from_cursor
  and cursor_destination is not distinct from :from_destination
for update
