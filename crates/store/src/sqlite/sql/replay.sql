-- A replay as it is shown. Followed by which.
select id, account_id, doc, rate, matched, matched_exact, created, skipped, delivered, dead_letter, status, created_at,
  finished_at
from replays
