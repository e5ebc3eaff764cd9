-- Of an account that was deleted there are none any more.
select p.id, p.hash, p.account_id, p.maker, p.maker_id, p.read_only, p.created_at, p.expires_at, p.session_seconds,
  p.opened_at
from portal_links p
join accounts a on a.id = p.account_id and a.deleted_at is null
