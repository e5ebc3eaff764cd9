select account_id, number, id, at, actor, key_id, action, object_id, client, request_id, difference, count, hash
from audit_entries
