select id, body_hash
from replays
where account_id = :account_id and key_hash = :key_hash
