-- Of one account. What is not there any more was replaced by another.
update accounts
set doc = replace(doc, :from, :to), version = version + 1
where id = :id
  and deleted_at is null
  and instr(doc, :from) > 0
