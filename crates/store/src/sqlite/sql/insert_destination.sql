insert into destinations (id, account_id, uid, version, created_at, shard, paused_at, resumed_at, disabled_at,
  disabled_reason, doc)
values (:id, :account_id, :uid, :version, :created_at, :shard, :paused_at, :resumed_at, :disabled_at, :disabled_reason,
  :doc)
