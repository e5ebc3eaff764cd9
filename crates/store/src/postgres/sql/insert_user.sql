insert into users (id, name, password, role, accounts, created_at, updated_at)
values (:id, :name, :password, :role, :accounts, :created_at, :updated_at)
