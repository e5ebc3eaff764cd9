-- Follows a scan and a page: what is wanted of what was looked at.
select page.id, page.account_id, page.source_id, page.type as event_type, page.idempotency_key, page.content_type,
       page.headers, page.ordering_key, page.metadata, page.received_at, page.deliver_at, page.deliveries,
       page.size_bytes, page.other_routes, page.tags, page.payload_erased_at,
       (select scan.id from scan where scan.id is not null order by scan.place desc limit 1) as last_id,  -- there was
       (select scan.id from scan where scan.place = :look_at) as looked_at_id                -- the last looked at
from (select) always
left join page on true
order by page.place
