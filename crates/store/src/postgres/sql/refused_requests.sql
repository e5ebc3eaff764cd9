select at, doc, body
from refused_requests
where source_id = :source_id and account_id = :account_id
order by at desc
