-- One row per event, in order.
select exists (select from events where events.id = lost.id) as known,
       (select accounts.version from accounts where accounts.id = lost.account_id and accounts.deleted_at is null) as account_version,
       used.event_id,
       coalesce(used.deliveries, (select events.deliveries from events where events.id = used.event_id)) as deliveries,
       used.body_hash
from unnest(:event_id, :account_id, :key_scope, :key_hash) with ordinality
    as lost (id, account_id, scope, key_hash, place)
left join lateral (
    select i.event_id, i.deliveries, i.body_hash
    from idempotency i
    where i.scope = lost.scope and i.key_hash = lost.key_hash
    limit 1
) used on true
order by lost.place
