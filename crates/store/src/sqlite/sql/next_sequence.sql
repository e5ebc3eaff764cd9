insert into sequences (destination_id, last)
values (:destination_id, 1)
on conflict (destination_id) do update set last = last + 1
returning last
