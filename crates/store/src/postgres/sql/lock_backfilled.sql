-- A chunk has its events for itself, among backfills and expansions: what they had is looked for by the next statement, which
-- sees what those before it have committed. In the order of their ids, as retention takes them.
select e.id
from events e
where e.id = any(:event_ids)
order by e.id
for no key update
