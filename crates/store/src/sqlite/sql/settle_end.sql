-- ?1 account, ?2 delivery, ?3 attempts it had when this one started
-- Found by its id and its number of attempts: whoever moved it meanwhile keeps the last word.
delete from queue
where account_id = ?1
  and delivery_id = ?2
  and attempts = ?3
