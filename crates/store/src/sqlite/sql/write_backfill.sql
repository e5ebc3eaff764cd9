-- :to, :to_destination the cursor as it shall be, :made, :skipped, :done whether this is the end
-- What was counted at the start and was not made at the end has got its delivery otherwise meanwhile, or is gone.
update replays
set cursor = :to,
    cursor_destination = :to_destination,
    created = created + :made,
    skipped = iif(:done, max(skipped + :skipped, matched - created - :made), skipped + :skipped),
    held_by = iif(:done, null, held_by),
    held_until = iif(:done, null, :held_until),
    status = iif(:done, 'completed', status),
    finished_at = iif(:done, :now, finished_at)
where id = :id
