-- An expansion of the version before as one of ours: the destinations that have a delivery of the event by now, waiting or
-- ended, are done.
insert into expanding_events (event_id, account_id, account_version, deliveries, inline_destinations, created_at)
select event_id, account_id, account_version, deliveries,
       coalesce(unhex((
         select group_concat(hex(destination_id), '')
         from (
           select destination_id from queue where event_id = :event_id
           union
           select destination_id from attempts where event_id = :event_id and ending is not null
         )
       )), x''),
       created_at
from expansions
where event_id = :event_id
