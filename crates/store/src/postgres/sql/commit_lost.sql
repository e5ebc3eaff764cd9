-- $1 events, $2 their accounts, $3-$4 scopes and hashes of their keys. One row per event, in order.
select exists (select from events where events.id = lost.id),
       (select accounts.version from accounts where accounts.id = lost.account_id),
       used.event_id,
       coalesce(used.deliveries, (select events.deliveries from events where events.id = used.event_id)),
       used.body_hash
from unnest($1, $2, $3, $4) with ordinality as lost (id, account_id, scope, key_hash, place)
left join lateral (
    select i.event_id, i.deliveries, i.body_hash
    from idempotency i
    where i.scope = lost.scope and i.key_hash = lost.key_hash
    limit 1
) used on true
order by lost.place
