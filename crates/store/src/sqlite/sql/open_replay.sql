-- A replay that runs. Followed by which.
select r.id, r.account_id, r.doc, r.rate, r.cursor, r.cursor_destination, r.created_at, r.held_by, r.held_until,
  exists (select 1 from nodes n where n.id = r.held_by)
from replays r
where r.status = 'running'
