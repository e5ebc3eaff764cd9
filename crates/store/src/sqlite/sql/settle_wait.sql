-- ?1 account, ?2 delivery, ?3 attempts it had when this one started, ?4 ?5 place (track, rank), ?6 due, ?7 spent,
-- ?8 whether an attempt was made, ?9 whether it met a TLS error, ?10 outcome, ?11 HTTP status
update queue
set track = ?4,
    rank = ?5,
    due_at = ?6,
    attempts = attempts + ?8,
    spent = ?7,
    tls_errors = tls_errors + ?9,
    last_outcome = iif(?8, ?10, last_outcome),
    last_http_status = iif(?8, ?11, last_http_status)
where account_id = ?1
  and delivery_id = ?2
  and attempts = ?3
