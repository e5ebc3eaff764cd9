-- $1 account, $2 since. The version and what it brought, in one snapshot.
select r.doc, r.version, r.deleted_at is not null, a.version, r.id
from accounts a
left join routes r on r.account_id = a.id and r.version > $2
where a.id = $1
order by r.id
