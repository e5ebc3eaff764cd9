-- What was counted and is no longer there at the end has had its time meanwhile: it was skipped.
update replays
set cursor = :cursor,
    created = created + :made,
    skipped = case when :done then greatest(skipped + :skipped, matched - created - :made) else skipped + :skipped end,
    held_by = case when :done then null else held_by end,
    held_until = case when :done then null else :held_until end,
    status = case when :done then 'completed' else status end,
    finished_at = case when :done then :now else finished_at end
where id = :replay_id
returning account_id
