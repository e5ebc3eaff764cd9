-- Of the oldest that wait: an account may have millions.
select min(oldest.due_at) as due_at
from (
    select q.due_at
    from queue q
    where q.account_id = :account_id
    order by q.account_id, q.delivery_id
    limit :limit
) oldest
where oldest.due_at <= :now
