insert into accounts (id, uid, version, created_at, doc)
values (:id, :uid, 1, :created_at, :doc)
