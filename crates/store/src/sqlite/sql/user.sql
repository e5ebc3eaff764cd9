select id, name, password, role, accounts, created_at, updated_at
from users
