-- ?1 account, ?2 delivery, ?3 track, ?4 its number
update queue
set track = ?3,
    rank = ?4,
    sequence = ?4
where account_id = ?1
  and delivery_id = ?2
