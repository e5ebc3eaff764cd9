-- In the order asked for; each destination is looked up by itself.
select d.id as destination_id, found.starts_at, found.doc
from unnest(:destination_ids) with ordinality as d (id, place)
cross join lateral (
    select r.starts_at, r.doc
    from rollups r
    where r.account_id = :account_id
      and r.destination_id = d.id
      and r.span = :span
      and r.starts_at >= :starts_since and r.starts_at < :starts_before
) found
order by d.place, found.starts_at
limit :limit
