-- Whoever comes second with a key waits for the first, and writes nothing.
insert into replays (id, account_id, status, rate, matched, matched_exact, created, created_at, finished_at, key_hash,
                     body_hash, doc, delivery_ids)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict (account_id, key_hash) where key_hash is not null do nothing
returning id
