-- Dead letters can be settled: by a replay of theirs that was delivered, or by a person. What happened stays as it is (a
-- fact is never changed); that a dead letter is settled is a row of its own. Counted are those that are not.

-- One row a settled dead letter. It is forgotten with its delivery.
create table settled_dead_letters (
    delivery_id blob not null primary key check (length(delivery_id) = 16),
    account_id blob not null,
    resolved_at integer not null,
    -- The delivery of its chain that was delivered, or the key or user that dismissed it, as it is shown.
    delivered_by blob,
    dismissed_by text,
    note text,
    check ((delivered_by is null) <> (dismissed_by is null)),
    check (note is null or dismissed_by is not null)
) without rowid;

-- What earlier versions have replayed and delivered.
insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
select dead.delivery_id, dead.account_id, min(made.ended_at), made.delivery_id
from replayed r
join attempts made on made.delivery_id = r.delivery_id and made.ending = 'delivered' and made.origin <> x''
join attempts dead on dead.event_id = made.event_id and dead.ending = 'dead_letter'
  and iif(dead.origin = x'', dead.delivery_id, dead.origin) = made.origin
group by dead.delivery_id, dead.account_id;

-- By the day of their ids and by what the last attempt met, too, with the oldest and the newest of each: settled ones lie
-- between the others, and are not to be walked over when they are shown.
drop trigger dead_letter_went;
drop table dead_letter_counts;
create table dead_letter_counts (
    account_id blob not null,
    destination_id blob not null,
    reason text not null,
    http_status integer not null,                   -- of the last attempt; 0: none
    outcome text not null,                          -- of the last attempt; empty: there was none
    day integer not null,                           -- since 1970
    count integer not null check (count >= 0),
    oldest blob not null,
    newest blob not null,
    primary key (account_id, destination_id, reason, http_status, outcome, day)
) without rowid;

-- An id begins with 48 bits of milliseconds: twelve digits, most of them the same for years.
insert into dead_letter_counts (account_id, destination_id, reason, http_status, outcome, day, count, oldest, newest)
select account_id, destination_id, reason, http_status, outcome,
  (((instr(digits, substr(id, 1, 1)) - 1) << 44) + ((instr(digits, substr(id, 2, 1)) - 1) << 40)
    + ((instr(digits, substr(id, 3, 1)) - 1) << 36) + ((instr(digits, substr(id, 4, 1)) - 1) << 32)
    + ((instr(digits, substr(id, 5, 1)) - 1) << 28) + ((instr(digits, substr(id, 6, 1)) - 1) << 24)
    + ((instr(digits, substr(id, 7, 1)) - 1) << 20) + ((instr(digits, substr(id, 8, 1)) - 1) << 16)
    + ((instr(digits, substr(id, 9, 1)) - 1) << 12) + ((instr(digits, substr(id, 10, 1)) - 1) << 8)
    + ((instr(digits, substr(id, 11, 1)) - 1) << 4) + (instr(digits, substr(id, 12, 1)) - 1)) / 86400000,
  count(*), min(delivery_id), max(delivery_id)
from (
    select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0) as http_status, a.delivery_id,
      hex(a.delivery_id) as id, '0123456789ABCDEF' as digits,
      coalesce(a.outcome, (
        select l.outcome
        from attempts l
        where l.delivery_id = a.delivery_id and l.number is not null and not l.late
        order by l.number desc
        limit 1
      ), '') as outcome
    from attempts a
    where a.ending = 'dead_letter'
      and not exists (select 1 from settled_dead_letters s where s.delivery_id = a.delivery_id)
)
group by 1, 2, 3, 4, 5, 6;

-- Settled once, subtracted once: a row that was there is not inserted. Where it was the oldest or the newest, another is: the
-- next that is counted or, of a thousand that are not, the last. The next time it is gone on from there.
create trigger dead_letter_settled after insert on settled_dead_letters
begin
    update dead_letter_counts
    set count = max(count - 1, 0),
        oldest = iif(oldest <> new.delivery_id, oldest, coalesce(
            (select looked_at.delivery_id
             from (
                 select a.delivery_id, a.outcome
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id > dead_letter_counts.oldest and a.delivery_id <= dead_letter_counts.newest
                 order by a.delivery_id
                 limit 1000
             ) looked_at
             where not exists (select 1 from settled_dead_letters s where s.delivery_id = looked_at.delivery_id)
               and coalesce(looked_at.outcome, (
                   select l.outcome
                   from attempts l
                   where l.delivery_id = looked_at.delivery_id and l.number is not null and not l.late
                   order by l.number desc
                   limit 1
                 ), '') = dead_letter_counts.outcome
             limit 1),
            (select max(looked_at.delivery_id)
             from (
                 select a.delivery_id
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id > dead_letter_counts.oldest and a.delivery_id <= dead_letter_counts.newest
                 order by a.delivery_id
                 limit 1000
             ) looked_at),
            oldest)),
        newest = iif(newest <> new.delivery_id, newest, coalesce(
            (select looked_at.delivery_id
             from (
                 select a.delivery_id, a.outcome
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id < dead_letter_counts.newest and a.delivery_id >= dead_letter_counts.oldest
                 order by a.delivery_id desc
                 limit 1000
             ) looked_at
             where not exists (select 1 from settled_dead_letters s where s.delivery_id = looked_at.delivery_id)
               and coalesce(looked_at.outcome, (
                   select l.outcome
                   from attempts l
                   where l.delivery_id = looked_at.delivery_id and l.number is not null and not l.late
                   order by l.number desc
                   limit 1
                 ), '') = dead_letter_counts.outcome
             limit 1),
            (select min(looked_at.delivery_id)
             from (
                 select a.delivery_id
                 from attempts a
                 where a.account_id = dead_letter_counts.account_id and a.ending = 'dead_letter'
                   and a.destination_id = dead_letter_counts.destination_id and a.reason = dead_letter_counts.reason
                   and a.http_status is nullif(dead_letter_counts.http_status, 0)
                   and a.delivery_id < dead_letter_counts.newest and a.delivery_id >= dead_letter_counts.oldest
                 order by a.delivery_id desc
                 limit 1000
             ) looked_at),
            newest))
    where (account_id, destination_id, reason, http_status, outcome) = (
        select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0),
          coalesce(a.outcome, (
            select l.outcome
            from attempts l
            where l.delivery_id = a.delivery_id and l.number is not null and not l.late
            order by l.number desc
            limit 1
          ), '')
        from attempts a
        where a.delivery_id = new.delivery_id and a.ending = 'dead_letter'
    )
      and new.delivery_id >= unhex(printf('%012X', day * 86400000))
      and new.delivery_id < unhex(printf('%012X', (day + 1) * 86400000));
    delete from dead_letter_counts
    where (account_id, destination_id, reason, http_status) = (
        select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0)
        from attempts a
        where a.delivery_id = new.delivery_id and a.ending = 'dead_letter'
    )
      and count = 0;
end;

-- One that is forgotten is settled first, if it was not, and its settlement forgotten with it: so it is subtracted once in any
-- case. Before it goes: what its last attempt met may have to be looked up (the ending of a delivery goes before its other
-- facts).
create trigger dead_letter_goes before delete on attempts when old.ending = 'dead_letter'
begin
    insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
    values (old.delivery_id, old.account_id, 0, old.delivery_id)
    on conflict (delivery_id) do nothing;
    delete from settled_dead_letters where delivery_id = old.delivery_id;
end;
