update destinations
set uid = :uid,
    version = :version,
    paused_at = :paused_at,
    resumed_at = :resumed_at,
    disabled_at = :disabled_at,
    disabled_reason = :disabled_reason,
    doc = :doc
where id = :id
