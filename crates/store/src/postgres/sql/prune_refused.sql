delete from refused_requests
where source_id = :source_id
  and at < (
    select min(at)
    from (select at from refused_requests where source_id = :source_id order by at desc limit :kept) newest
  )
