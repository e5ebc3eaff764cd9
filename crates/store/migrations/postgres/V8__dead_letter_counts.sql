-- How many dead letters there are of each destination, reason and HTTP status, by the day of their ids: the table of a
-- day is dropped as a whole, and its counts with it. Kept by the tables themselves: whoever writes or forgets a dead
-- letter need not know.
create table dead_letter_counts (
    account_id     uuid     not null,
    destination_id uuid     not null,
    reason         text     not null,
    http_status    smallint not null,               -- of the last attempt; 0: none
    day            integer  not null,               -- since 1970
    count          bigint   not null check (count >= 0),
    oldest         uuid     not null,
    newest         uuid     not null,
    primary key (account_id, destination_id, reason, http_status, day)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
create index dead_letter_counts_by_day on dead_letter_counts (day);

-- The day in which an id was made: its first 48 bits are milliseconds.
create function day_of(id uuid) returns integer language sql immutable strict parallel safe
return (('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 86400000)::integer;

insert into dead_letter_counts
select account_id, destination_id, reason, coalesce(http_status, 0), day_of(delivery_id), count(*),
       min(delivery_id::text)::uuid, max(delivery_id::text)::uuid
from attempts
where ending = 'dead_letter'
group by 1, 2, 3, 4, 5;

create function dead_letter_came() returns trigger language plpgsql as $$
begin
    insert into dead_letter_counts as c
    values (new.account_id, new.destination_id, new.reason, coalesce(new.http_status, 0), day_of(new.delivery_id), 1,
            new.delivery_id, new.delivery_id)
    on conflict (account_id, destination_id, reason, http_status, day)
    do update set count = c.count + 1, oldest = least(c.oldest, excluded.oldest),
                  newest = greatest(c.newest, excluded.newest);
    return null;
end $$;

-- Looked at for every fact, run for dead letters alone.
create trigger attempts_dead_letter_came after insert on attempts
for each row when (new.ending = 'dead_letter') execute function dead_letter_came();

-- In steps of retention, each of a few hundred rows. What is left of a group may have another oldest and newest: they are
-- looked up in their day, those without a status in the order of the index, so that none is read from end to end.
create function dead_letters_went() returns trigger language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    one record;
begin
    for one in
        select g.account_id, g.destination_id, g.reason, coalesce(g.http_status, 0) as http_status,
               day_of(g.delivery_id) as day, count(*) as count
        from gone g
        where g.ending = 'dead_letter'
        group by 1, 2, 3, 4, 5
        order by 1, 2, 3, 4, 5
    loop
        update dead_letter_counts c
        set count = greatest(c.count - one.count, 0),
            oldest = coalesce(
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status = c.http_status
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.delivery_id
                 limit 1),
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status is null and c.http_status = 0
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.http_status nulls first, a.delivery_id
                 limit 1),
                c.oldest),
            newest = coalesce(
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status = c.http_status
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.delivery_id desc
                 limit 1),
                (select a.delivery_id
                 from attempts a
                 where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
                   and a.reason = c.reason and a.http_status is null and c.http_status = 0
                   and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
                 order by a.http_status desc nulls last, a.delivery_id desc
                 limit 1),
                c.newest)
        where c.account_id = one.account_id and c.destination_id = one.destination_id and c.reason = one.reason
          and c.http_status = one.http_status and c.day = one.day;
        delete from dead_letter_counts c
        where c.account_id = one.account_id and c.destination_id = one.destination_id and c.reason = one.reason
          and c.http_status = one.http_status and c.day = one.day and c.count = 0;
    end loop;
    return null;
end $$;

create trigger attempts_dead_letters_went after delete on attempts
referencing old table as gone
for each statement execute function dead_letters_went();
