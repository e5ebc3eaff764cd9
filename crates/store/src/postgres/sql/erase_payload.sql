with erased as (
    update events
    set payload = '', headers = '[]', payload_crc = null, sealed_headers = null, payload_erased_at = :now
    where id = :event_id
)
insert into payload_erasures (event_id, account_id, erased_at)
values (:event_id, :account_id, :now)
on conflict do nothing
