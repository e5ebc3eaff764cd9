insert into portal_links (id, hash, account_id, maker, maker_id, read_only, created_at, expires_at, session_seconds, ends_at)
values (:id, :hash, :account_id, :maker, :maker_id, :read_only, :created_at, :expires_at, :session_seconds, :ends_at)
