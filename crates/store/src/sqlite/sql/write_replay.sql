-- :from the cursor as it was read, :to as it shall be, :made, :skipped, :done whether this is the end
-- What was counted and is no longer there at the end has had its time meanwhile: it was skipped.
update replays
set cursor = :to,
    created = created + :made,
    skipped = iif(:done, max(skipped + :skipped, matched - created - :made), skipped + :skipped),
    held_by = iif(:done, null, held_by),
    held_until = iif(:done, null, :held_until),
    status = iif(:done, 'completed', status),
    finished_at = iif(:done, :now, finished_at)
where id = :id
  and status = 'running'
  and held_by = :node_id
  and cursor is :from
