-- ?1 account, ?2 destination, ?3 reason, ?4 HTTP status or null
insert into dead_letter_counts (account_id, destination_id, reason, http_status, count)
values (?1, ?2, ?3, coalesce(?4, 0), 1)
on conflict (account_id, destination_id, reason, http_status) do update set count = count + 1
