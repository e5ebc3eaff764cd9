-- ?1 account, ?2 delivery, ?3 now, ?4 ?5 its place (track, rank)
update queue
set due_at = ?3,
    track = ?4,
    rank = ?5
where account_id = ?1
  and delivery_id = ?2
  and due_at > ?3                           -- one that is due keeps its place
