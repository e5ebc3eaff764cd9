-- Ends commit.sql.
select id
from written
