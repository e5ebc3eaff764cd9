-- A replay as it is shown. Followed by which.
select r.id, r.account_id, r.status, r.rate, r.matched, r.matched_exact, r.created, r.skipped, c.delivered,
       c.dead_letter, r.created_at, r.finished_at, r.doc
from replays r
cross join lateral (
    select coalesce(sum(counts.delivered), 0)::bigint as delivered,
           coalesce(sum(counts.dead_letter), 0)::bigint as dead_letter
    from replay_counts counts
    where counts.replay_id = r.id
) c
