update queue
set track = :track,
    rank = :sequence,
    sequence = :sequence
where account_id = :account_id
  and delivery_id = :delivery_id
