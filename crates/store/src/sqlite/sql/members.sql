select id, label, proof, version, role, address, master_keys, tables_version, joined_at, expires_at
from nodes
order by id
