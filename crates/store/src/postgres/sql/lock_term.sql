-- The term stands, and does so until the transaction ends.
select from chores
where name = :chore and node_id = :node_id and term = :term
for share
