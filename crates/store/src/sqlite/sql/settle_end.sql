-- :attempts it had when this one started
-- Found by its id and its number of attempts: a settlement or a cancel that moved it meanwhile keeps the last word.
delete from queue
where account_id = :account_id
  and delivery_id = :delivery_id
  and attempts = :attempts
