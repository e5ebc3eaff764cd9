-- Nothing is inserted where the replay has made something of this origin before.
insert into replayed (replay_id, origin, delivery_id)
values (:replay_id, :origin, :delivery_id)
on conflict (replay_id, origin) do nothing
