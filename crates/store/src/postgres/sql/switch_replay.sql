-- A backfill has words of its own for what has not ended.
update replays
set status = case when status in ('backfilling', 'backfill_paused') then :backfill_status else :status end,
    finished_at = :finished_at
where id = :replay_id
  and account_id = :account_id
  and status in ('running', 'paused', 'backfilling', 'backfill_paused')
returning id
