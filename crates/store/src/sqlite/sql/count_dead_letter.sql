-- :http_status, :outcome null: none
insert into dead_letter_counts (account_id, destination_id, reason, http_status, outcome, day, count, oldest, newest)
values (:account_id, :destination_id, :reason, coalesce(:http_status, 0), coalesce(:outcome, ''), :day, 1,
  :delivery_id, :delivery_id)
on conflict (account_id, destination_id, reason, http_status, outcome, day)
do update set count = count + 1, oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest)
