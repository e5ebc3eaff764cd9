-- :attempts it had when this one started, :tried whether one was made, :tls_error whether it met one
update queue
set track = :track,
    rank = :rank,
    due_at = :due_at,
    attempts = attempts + :tried,
    spent = :spent,
    tls_errors = tls_errors + :tls_error,
    last_outcome = iif(:tried, :outcome, last_outcome),
    last_http_status = iif(:tried, :http_status, last_http_status)
where account_id = :account_id
  and delivery_id = :delivery_id
  and attempts = :attempts
