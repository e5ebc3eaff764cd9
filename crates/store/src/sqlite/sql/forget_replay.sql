delete from replays
where id = :id
  and not exists (select 1 from replayed r where r.replay_id = :id)
