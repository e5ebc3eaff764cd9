-- The version and what it brought, in one snapshot.
select r.doc, r.version, r.deleted_at is not null as deleted, a.version as account_version, r.id
from accounts a
left join routes r on r.account_id = a.id and r.version > :since_version
where a.id = :account_id and a.deleted_at is null
order by r.id
