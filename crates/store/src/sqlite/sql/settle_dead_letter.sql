-- A dead letter of an account that is told of it, by the minute.
insert into dead_letter_minutes (minute, destination_id, reason, http_status, account_id, count)
select :minute, :destination_id, :reason, coalesce(:http_status, 0), :account_id, 1
where exists (select 1 from told_accounts where account_id = :account_id or whole_installation)
on conflict (minute, destination_id, reason, http_status) do update set count = count + 1
