update replays
set status = :status,
    finished_at = :finished_at
where id = :id
  and account_id = :account_id
  and status in ('running', 'paused')
