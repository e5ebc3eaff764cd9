-- Followed by which.
select e.account_id, a.version, e.requested_at, e.phase, e.erased_rows, e.finished_at
from erasures e
join accounts a on a.id = e.account_id
