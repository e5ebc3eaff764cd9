select id, label, proof, version, role, address, joined_at, expires_at
from nodes
order by id
