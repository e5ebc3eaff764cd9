-- $1 node, $2 lease in microseconds
-- Also renews an expired lease: only the reaper's delete takes ownership away, so an outage costs nobody their lanes.
update nodes
set expires_at = now() + $2 * interval '1 microsecond'
where id = $1
returning (extract(epoch from now()) * 1000000)::bigint -- the node's clock is this, plus its own monotonic time
