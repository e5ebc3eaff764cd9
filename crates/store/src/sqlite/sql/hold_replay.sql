-- :seen_by, :seen_until its holder when it was looked at
update replays
set held_by = :node_id,
    held_until = :until
where id = :id
  and status = 'running'
  and held_by is :seen_by
  and held_until is :seen_until
