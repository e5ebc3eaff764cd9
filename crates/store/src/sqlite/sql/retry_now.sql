update queue
set due_at = :now,
    rank = iif(sequence is null, :now, rank)
where account_id = :account_id
  and delivery_id = :delivery_id
  and due_at > :now                         -- one that is due keeps its place
