-- $1 replay, $2 node, $3 until, $4 by whom and $5 until when it was held when it was seen
-- Guarded by columns of the row that is written: of two who saw it free, one takes it.
update replays
set held_by = $2, held_until = $3
where id = $1
  and status = 'running'
  and held_by is not distinct from $4
  and held_until is not distinct from $5
returning id
