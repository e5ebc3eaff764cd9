-- ?1 destination
insert into sequences (destination_id, last)
values (?1, 1)
on conflict (destination_id) do update set last = last + 1
returning last
