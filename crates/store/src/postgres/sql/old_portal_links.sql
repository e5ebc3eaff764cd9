-- Those that are over go first.
select id
from portal_links
where account_id = :account_id
order by ends_at > :now desc, id desc
offset :kept
