, told as (
    -- Dead letters of accounts that are told of them, by the minute. A delivery of an operational event, whose id is of
    -- UUID version 8, makes none.
    insert into dead_letter_minutes (minute, destination_id, reason, http_status, account_id, count)
    select c.minute, c.destination_id, c.reason, c.http_status, c.account_id, count(*)
    from (
        select c.ended_at - c.ended_at % 60000000 as minute, c.destination_id, c.reason,
               coalesce(c.http_status, 0) as http_status, c.account_id,
               c.delivery_id in (select delivery_id from gone) as gone
        from c
        where c.ending = 'dead_letter'
          and get_byte(uuid_send(c.event_id), 6) >> 4 <> 8
        offset 0                                                -- computed once a row
    ) c
    where c.gone
      and exists (select from told_accounts t where t.account_id = c.account_id or t.whole_installation)
    group by 1, 2, 3, 4, 5
    order by 1, 2, 3, 4
    on conflict (minute, destination_id, reason, http_status)
        do update set count = dead_letter_minutes.count + excluded.count
)
