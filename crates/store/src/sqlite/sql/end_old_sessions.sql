delete from sessions
where id in (
  select id from sessions where holder_id = :holder_id order by id desc limit -1 offset :kept
)
