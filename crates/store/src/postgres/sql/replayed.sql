select delivery_id
from replayed
where replay_id = :replay_id and origin = :origin
