-- Whoever makes a delivery of the event holds its row: it is waited for.
select e.payload_erased_at
from events e
where e.account_id = :account_id and e.id = :event_id
for update
