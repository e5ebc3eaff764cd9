-- :from, :from_destination the cursor as it was read
select 1
from replays
where id = :id
  and status = 'running'
  and held_by = :node_id
  and cursor is :from
  and cursor_destination is :from_destination
