insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id, origin, number,
  spent, started_at, duration_us, outcome, http_status, node_id, ending, reason, ended_at, late, detail, sequence)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7,
  iif(?8 = ?1, x'', ?8),                                -- empty: itself
  ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
on conflict (delivery_id, attempt_id) do nothing        -- a settlement that is run again: the first word stays
