-- What was counted and is no longer there at the end has had its time meanwhile: it was skipped.
-- $1 replay, $2 cursor, $3 made, $4 skipped, $5 whether this is the end, $6 now, $7 held until
update replays
set cursor = $2,
    created = created + $3,
    skipped = case when $5 then greatest(skipped + $4, matched - created - $3) else skipped + $4 end,
    held_by = case when $5 then null else held_by end,
    held_until = case when $5 then null else $7 end,
    status = case when $5 then 'completed' else status end,
    finished_at = case when $5 then $6 else finished_at end
where id = $1
