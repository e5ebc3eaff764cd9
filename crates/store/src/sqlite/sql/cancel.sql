-- ?1 account, ?2 delivery
delete from queue
where account_id = ?1
  and delivery_id = ?2
