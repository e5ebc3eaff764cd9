insert into settled_dead_letters (delivery_id, account_id, resolved_at, dismissed_by, note)
select delivery_id, account_id, :resolved_at, :dismissed_by, :note
from attempts
where delivery_id = :delivery_id
  and account_id = :account_id
  and ending = 'dead_letter'
on conflict (delivery_id) do nothing                    -- settled already: the first word stays
