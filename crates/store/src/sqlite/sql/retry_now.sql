-- ?1 account, ?2 delivery, ?3 now
update queue
set due_at = ?3,
    rank = iif(sequence is null, ?3, rank)
where account_id = ?1
  and delivery_id = ?2
  and due_at > ?3                           -- one that is due keeps its place
