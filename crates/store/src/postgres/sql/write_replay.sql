-- $1 replay, $2 cursor, $3 made, $4 skipped, $5 whether this is the end, $6 now, $7 held until
update replays
set cursor = $2,
    created = created + $3,
    skipped = skipped + $4,
    held_by = case when $5 then null else held_by end,
    held_until = case when $5 then null else $7 end,
    status = case when $5 then 'completed' else status end,
    finished_at = case when $5 then $6 else finished_at end
where id = $1
