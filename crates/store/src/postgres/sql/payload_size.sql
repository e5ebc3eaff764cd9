select e.size_bytes, octet_length(e.payload) as kept_bytes, e.payload_erased_at
from events e
where e.account_id = :account_id and e.id = :event_id
