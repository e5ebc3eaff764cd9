insert into destinations (id, account_id, uid, version, paused_at, resumed_at, disabled_at, disabled_reason, doc, shard,
                          created_at)
values (:id, :account_id, :uid, :version, :paused_at, :resumed_at, :disabled_at, :disabled_reason, :doc, :shard,
        :created_at)
