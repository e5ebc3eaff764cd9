-- ?1 scope, ?2 hash of the key
select i.event_id, case when e.id is null then 0 else e.deliveries end, i.body_hash
from idempotency i
left join events e on e.id = i.event_id     -- a key may outlive its event
where i.scope = ?1
  and i.key_hash = ?2
