insert into replays (id, account_id, status, rate, matched, matched_exact, created, created_at, finished_at, key_hash,
  body_hash, doc, delivery_ids)
values (:id, :account_id, :status, :rate, :matched, :matched_exact, :created, :created_at, :finished_at, :key_hash,
  :body_hash, :doc, :delivery_ids)
