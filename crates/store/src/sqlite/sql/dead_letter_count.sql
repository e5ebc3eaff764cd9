-- ?1 account, ?2 destination, ?3 reason, ?4 HTTP status, ?5 how many at most
select count(*)
from (
    select 1
    from attempts
    where account_id = ?1
      and ending = 'dead_letter'
      and destination_id = ?2
      and reason = ?3
      and http_status is ?4
    limit ?5
)
