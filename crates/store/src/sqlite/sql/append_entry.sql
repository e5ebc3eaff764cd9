insert into audit_entries (account_id, number, id, at, actor, key_id, action, object_id, client, request_id, difference,
  count, hash)
values (:account_id, :number, :id, :at, :actor, :key_id, :action, :object_id, :client, :request_id, :difference,
  :count, :hash)
