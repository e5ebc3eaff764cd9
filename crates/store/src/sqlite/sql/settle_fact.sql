insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id, origin, number,
  spent, started_at, duration_us, outcome, http_status, node_id, ending, reason, ended_at, late, detail, sequence)
values (:delivery_id, :attempt_id, :account_id, :event_id, :destination_id, :route_id, :replay_id,
  iif(:origin = :delivery_id, x'', :origin),            -- empty: itself
  :number, :spent, :started_at, :duration_us, :outcome, :http_status, :node_id, :ending, :reason, :ended_at, :late,
  :detail, :sequence)
on conflict (delivery_id, attempt_id) do nothing        -- a settlement that is run again: the first word stays
