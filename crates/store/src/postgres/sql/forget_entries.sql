with forgotten as (
  update audit_chains
  set forgotten_number = :number, forgotten_hash = :hash
  where account_id = :account_id
)
delete from audit_entries
where account_id = :account_id
  and number <= :number
returning number
