delete from queue
where account_id = :account_id
  and delivery_id = :delivery_id
