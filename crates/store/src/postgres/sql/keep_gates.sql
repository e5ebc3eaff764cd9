/* posthaste:keep_gates */
-- $1 node, $2 now, $3 destinations, $4 documents (null: nothing to remember), each destination once and in order; $5-$11
-- holds, each once and in order. A node whose row is gone changes nothing, and
-- neither does a word that was overtaken by a later one.
with me as materialized (
    select id from nodes where id = $1 for key share
),
words as materialized (
    select * from unnest($3, $4) as words (destination_id, doc)
),
forgotten as (
    delete from gates g
    using words, me
    where g.destination_id = words.destination_id and words.doc is null and g.updated_at <= $2
),
kept as (
    insert into gates (destination_id, doc, updated_at)
    select words.destination_id, words.doc, $2
    from words, me
    where words.doc is not null
    order by words.destination_id
    on conflict (destination_id) do update set doc = excluded.doc, updated_at = excluded.updated_at
    where gates.updated_at <= excluded.updated_at
)
insert into holds (destination_id, since, reason, until, detail, step, ended_at, changed_at)
select h.destination_id, h.since, h.reason, h.until, h.detail, h.step, h.ended_at, $2
from unnest($5, $6, $7, $8, $9, $10, $11) as h (destination_id, since, reason, until, detail, step, ended_at), me
order by 1, 2, 3
on conflict (destination_id, since, reason) do update
set until = excluded.until, detail = excluded.detail, step = excluded.step, ended_at = excluded.ended_at,
    changed_at = excluded.changed_at
