insert into rollup_marks (name, closed_at)
values (:name, :closed_at)
on conflict (name) do update set closed_at = excluded.closed_at
