-- What was counted at the start and was not made at the end has got its delivery otherwise meanwhile, or is gone.
update replays
set cursor = :cursor,
    cursor_destination = :cursor_destination,
    created = created + :made,
    skipped = case when :done then greatest(skipped + :skipped, matched - created - :made) else skipped + :skipped end,
    held_by = case when :done then null else held_by end,
    held_until = case when :done then null else :held_until end,
    status = case when :done then 'completed' else status end,
    finished_at = case when :done then :now else finished_at end
where id = :replay_id
