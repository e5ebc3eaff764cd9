-- Guarded by columns of the row that is written: of two nodes that saw it free, one takes it.
update replays
set held_by = :node_id, held_until = :held_until
where id = :replay_id
  and status in ('running', 'backfilling')
  and held_by is not distinct from :seen_held_by
  and held_until is not distinct from :seen_held_until
returning id
