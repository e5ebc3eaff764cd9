-- The second with a key waits for the first, and writes nothing.
insert into replays (id, account_id, status, rate, matched, matched_exact, created, created_at, finished_at, key_hash,
                     body_hash, doc, delivery_ids)
values (:id, :account_id, :status, :rate, :matched, :matched_exact, :created, :created_at, :finished_at,
        :key_hash, :body_hash, :doc, :delivery_ids)
on conflict (account_id, key_hash) where key_hash is not null do nothing
returning id
