-- An expansion of the version before as one of ours: these destinations are done. Guarded by its cursor as it was read before
-- them: a chunk that was written meanwhile has moved it, and nothing happens.
with taken as (
    delete from expansions x
    where x.event_id = :event_id and x.cursor is not distinct from :cursor
    returning x.event_id, x.account_id, x.account_version, x.deliveries, x.created_at
)
insert into expanding_events (event_id, account_id, account_version, deliveries, inline_destinations, created_at)
select taken.event_id, taken.account_id, taken.account_version, taken.deliveries, :destination_ids, taken.created_at
from taken
on conflict do nothing
returning event_id
