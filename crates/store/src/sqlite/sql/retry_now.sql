update queue
set due_at = :now,
    rank = iif(sequence is null or track = 0, :now, rank)   -- what is ordered stands by its number
where account_id = :account_id
  and delivery_id = :delivery_id
  and due_at > :now                         -- one that is due keeps its place
