-- :http_status null: none
insert into dead_letter_counts (account_id, destination_id, reason, http_status, count)
values (:account_id, :destination_id, :reason, coalesce(:http_status, 0), 1)
on conflict (account_id, destination_id, reason, http_status) do update set count = count + 1
