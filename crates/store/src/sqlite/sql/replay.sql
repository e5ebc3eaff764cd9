-- A replay as it is shown. Followed by which.
select id, account_id, status, rate, matched, matched_exact, created, skipped, delivered, dead_letter, created_at,
  finished_at, doc
from replays
