insert into sessions (id, hash, holder, holder_id, account_id, created_at, seen_at, expires_at, client, user_agent)
values (:id, :hash, :holder, :holder_id, :account_id, :created_at, :seen_at, :expires_at, :client, :user_agent)
