-- What was counted and is no longer there at the end has had its time meanwhile: it was skipped.
-- ?1 replay, ?2 node, ?3 the cursor as it was read, ?4 and as it shall be, ?5 made, ?6 skipped, ?7 whether this is the
-- end, ?8 now, ?9 held until
update replays
set cursor = ?4,
    created = created + ?5,
    skipped = iif(?7, max(skipped + ?6, matched - created - ?5), skipped + ?6),
    held_by = iif(?7, null, held_by),
    held_until = iif(?7, null, ?9),
    status = iif(?7, 'completed', status),
    finished_at = iif(?7, ?8, finished_at)
where id = ?1
  and status = 'running'
  and held_by = ?2
  and cursor is ?3
