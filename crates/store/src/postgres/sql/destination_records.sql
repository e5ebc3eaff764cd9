-- One row each, in order; deleted destinations and deleted routes too: something may still wait.
select d.doc, d.version, d.paused_at, d.resumed_at, d.disabled_at, d.disabled_reason, d.deleted_at,
       d.probed_at, d.account_id, d.shard, a.doc, r.docs, r.versions, a.version, g.doc, g.updated_at
from unnest(:destination_ids) with ordinality as asked (id, place)
left join lateral (
    select destinations.*
    from destinations
    left join accounts on accounts.id = destinations.account_id
    where destinations.id = asked.id
      and accounts.deleted_at is null                      -- else as good as gone; without an account it is damage, and told
    limit 1
) d on true
left join accounts a on a.id = d.account_id
left join lateral (
    select * from gates where gates.destination_id = asked.id limit 1
) g on true
left join lateral (
    select coalesce(array_agg(routes.doc order by routes.id), '{}') as docs,
           coalesce(array_agg(routes.version order by routes.id), '{}') as versions
    from routes
    where routes.destination_id = asked.id and routes.overrides
) r on true
order by asked.place
