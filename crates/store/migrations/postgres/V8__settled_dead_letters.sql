-- Dead letters can be settled: by a replay of theirs that was delivered, or by a person. What happened stays as it is (a
-- fact is never changed); that a dead letter is settled is a row of its own. Counted are those that are not.

-- Nothing is settled and nothing forgotten meanwhile: the counts are made anew from the facts.
lock table attempts in share row exclusive mode;

-- One row a settled dead letter. It is forgotten with its delivery.
create table settled_dead_letters (
    delivery_id  uuid   primary key,
    account_id   uuid   not null,
    resolved_at  bigint not null,
    delivered_by uuid,                                     -- the delivery of its chain that was delivered
    dismissed_by text,                                     -- or the key or user that dismissed it, as it is shown
    note         text,
    check ((delivered_by is null) <> (dismissed_by is null)),
    check (note is null or dismissed_by is not null)
);

-- What earlier versions have replayed and delivered.
insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
select distinct on (dead.delivery_id) dead.delivery_id, dead.account_id, made.ended_at, made.delivery_id
from replayed r
join attempts made on made.delivery_id = r.delivery_id and made.ending = 'delivered'
join attempts dead on dead.event_id = made.event_id and dead.origin = made.origin and dead.ending = 'dead_letter'
where made.origin <> made.delivery_id
order by dead.delivery_id, made.ended_at, made.delivery_id;

-- By what the last attempt met, too. Nodes of the version before add the rows of a group up, whatever they are told apart by.
alter table dead_letter_counts add column outcome text not null default '';   -- empty: there was no attempt
alter table dead_letter_counts drop constraint dead_letter_counts_pkey;
delete from dead_letter_counts;
insert into dead_letter_counts (account_id, destination_id, reason, http_status, outcome, day, count, oldest, newest)
select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0), coalesce(a.outcome, ''),
       day_of(a.delivery_id), count(*), min(a.delivery_id::text collate "C")::uuid, max(a.delivery_id::text collate "C")::uuid
from attempts a
where a.ending = 'dead_letter'
  and not exists (select from settled_dead_letters s where s.delivery_id = a.delivery_id)
group by 1, 2, 3, 4, 5, 6;
alter table dead_letter_counts add primary key (account_id, destination_id, reason, http_status, outcome, day);

create or replace function dead_letter_came() returns trigger language plpgsql as $$
begin
    insert into dead_letter_counts as c (account_id, destination_id, reason, http_status, outcome, day, count, oldest, newest)
    values (new.account_id, new.destination_id, new.reason, coalesce(new.http_status, 0), coalesce(new.outcome, ''),
            day_of(new.delivery_id), 1, new.delivery_id, new.delivery_id)
    on conflict (account_id, destination_id, reason, http_status, outcome, day)
    do update set count = c.count + 1, oldest = least(c.oldest, excluded.oldest),
                  newest = greatest(c.newest, excluded.newest);
    return null;
end $$;

-- The first dead letter of a group that is counted, looked for from its oldest upwards or from its newest downwards. Of a
-- thousand that are not, the last: the next time it is gone on from there.
create function counted_dead_letter(c dead_letter_counts, upwards boolean) returns uuid language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    it refcursor;
    id uuid;
    met text;
    last uuid;
begin
    -- Those without a status in the order of the index, so that none is read from end to end.
    if upwards and c.http_status > 0 then
        open it no scroll for
            select a.delivery_id, coalesce(a.outcome, '')
            from attempts a
            where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
              and a.reason = c.reason and a.http_status = c.http_status
              and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
            order by a.delivery_id
            limit 1000;
    elsif upwards then
        open it no scroll for
            select a.delivery_id, coalesce(a.outcome, '')
            from attempts a
            where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
              and a.reason = c.reason and a.http_status is null
              and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
            order by a.http_status nulls first, a.delivery_id
            limit 1000;
    elsif c.http_status > 0 then
        open it no scroll for
            select a.delivery_id, coalesce(a.outcome, '')
            from attempts a
            where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
              and a.reason = c.reason and a.http_status = c.http_status
              and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
            order by a.delivery_id desc
            limit 1000;
    else
        open it no scroll for
            select a.delivery_id, coalesce(a.outcome, '')
            from attempts a
            where a.account_id = c.account_id and a.ending = 'dead_letter' and a.destination_id = c.destination_id
              and a.reason = c.reason and a.http_status is null
              and a.delivery_id >= c.oldest and a.delivery_id <= c.newest
            order by a.http_status desc nulls last, a.delivery_id desc
            limit 1000;
    end if;
    loop
        fetch it into id, met;
        exit when not found;
        last := id;
        exit when met = c.outcome and not exists (select from settled_dead_letters s where s.delivery_id = id);
    end loop;
    close it;
    return last;
end $$;

-- These are counted no more. Where one of them was the oldest or the newest of what is left, another is.
create function dead_letters_less(gone dead_letter_counts, ids uuid[]) returns void language plpgsql as $$
declare
    c dead_letter_counts;
begin
    update dead_letter_counts k
    set count = greatest(k.count - gone.count, 0)
    where k.account_id = gone.account_id and k.destination_id = gone.destination_id and k.reason = gone.reason
      and k.http_status = gone.http_status and k.outcome = gone.outcome and k.day = gone.day
    returning k.* into c;
    if not found then
        return;
    end if;
    if c.count = 0 then
        delete from dead_letter_counts k
        where k.account_id = c.account_id and k.destination_id = c.destination_id and k.reason = c.reason
          and k.http_status = c.http_status and k.outcome = c.outcome and k.day = c.day;
    elsif c.oldest = any(ids) or c.newest = any(ids) then
        update dead_letter_counts k
        set oldest = case when c.oldest = any(ids) then coalesce(counted_dead_letter(c, true), c.oldest) else c.oldest end,
            newest = case when c.newest = any(ids) then coalesce(counted_dead_letter(c, false), c.newest) else c.newest end
        where k.account_id = c.account_id and k.destination_id = c.destination_id and k.reason = c.reason
          and k.http_status = c.http_status and k.outcome = c.outcome and k.day = c.day;
    end if;
end $$;

-- Settled once, subtracted once: a row that was there is not among those that were inserted.
create function dead_letters_settled() returns trigger language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    one record;
begin
    for one in
        select row(a.account_id, a.destination_id, a.reason, a.http_status, a.day, count(*), null, null, a.outcome)
                   ::dead_letter_counts as gone,
               array_agg(a.delivery_id) as ids
        from (
            select a.account_id, a.destination_id, a.reason, coalesce(a.http_status, 0)::smallint as http_status,
                   coalesce(a.outcome, '') as outcome, day_of(a.delivery_id) as day, a.delivery_id
            from settled s
            cross join lateral (
                select *
                from attempts f
                where f.delivery_id = s.delivery_id and f.ending = 'dead_letter'
                limit 1
            ) a
        ) a
        group by a.account_id, a.destination_id, a.reason, a.http_status, a.outcome, a.day
        order by a.account_id, a.destination_id, a.reason, a.http_status, a.outcome, a.day
    loop
        perform dead_letters_less(one.gone, one.ids);
    end loop;
    return null;
end $$;

create trigger dead_letters_settled after insert on settled_dead_letters
referencing new table as settled
for each statement execute function dead_letters_settled();

-- In steps of retention, each of a few hundred rows. What was settled was subtracted then, and is forgotten with the rest.
create or replace function dead_letters_went() returns trigger language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    one record;
begin
    if not exists (select from gone g where g.ending = 'dead_letter') then
        return null;
    end if;
    for one in
        select row(a.account_id, a.destination_id, a.reason, a.http_status, a.day, count(*), null, null, a.outcome)
                   ::dead_letter_counts as gone,
               array_agg(a.delivery_id) as ids
        from (
            select g.account_id, g.destination_id, g.reason, coalesce(g.http_status, 0)::smallint as http_status,
                   coalesce(g.outcome, '') as outcome, day_of(g.delivery_id) as day, g.delivery_id
            from gone g
            where g.ending = 'dead_letter'
              and not exists (select from settled_dead_letters s where s.delivery_id = g.delivery_id)
        ) a
        group by a.account_id, a.destination_id, a.reason, a.http_status, a.outcome, a.day
        order by a.account_id, a.destination_id, a.reason, a.http_status, a.outcome, a.day
    loop
        perform dead_letters_less(one.gone, one.ids);
    end loop;
    delete from settled_dead_letters s
    where s.delivery_id in (select g.delivery_id from gone g where g.ending = 'dead_letter');
    return null;
end $$;
