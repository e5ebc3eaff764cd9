-- A replay that runs. Followed by which.
select r.id, r.account_id, r.rate, r.cursor, r.cursor_destination, r.created_at, r.held_by, r.held_until,
       exists (select from nodes n where n.id = r.held_by) as holder_lives, r.doc
from replays r
where r.status in ('running', 'backfilling')
