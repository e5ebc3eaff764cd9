with moved as (
  update audit_chains
  set number = :number, hash = :hash
  where account_id = :account_id
)
insert into audit_entries (account_id, number, id, at, actor, key_id, action, object_id, client, request_id, difference,
  count, hash)
values (:account_id, :number, :id, :at, :actor, :key_id, :action, :object_id, :client, :request_id, :difference,
  :count, :hash)
