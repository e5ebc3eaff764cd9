-- The newest of a few facts from a row on.
select max(attempt_id)
from (select attempt_id from attempts where rowid >= :row order by rowid limit :neighbours)
