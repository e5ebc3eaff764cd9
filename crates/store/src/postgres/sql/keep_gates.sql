/* posthaste:keep_gates */
-- Gates by columns (a null document: nothing to remember), each destination once and in order; then holds, each once and
-- in order. A node whose row is gone changes nothing, and neither does a word that was overtaken by a later one.
with me as materialized (
    select id from nodes where id = :node_id for key share
),
words as materialized (
    select * from unnest(:gate_destination_id, :gate_doc) as words (destination_id, doc)
),
forgotten as (
    delete from gates g
    using words, me
    where g.destination_id = words.destination_id and words.doc is null and g.updated_at <= :now
),
kept as (
    insert into gates (destination_id, doc, updated_at)
    select words.destination_id, words.doc, :now
    from words, me
    where words.doc is not null
      -- Nothing is kept of a destination that was erased.
      and (select true from destinations where destinations.id = words.destination_id limit 1)
    order by words.destination_id
    on conflict (destination_id) do update set doc = excluded.doc, updated_at = excluded.updated_at
    where gates.updated_at <= excluded.updated_at
),
told as (
    insert into operational_notes (id, account_id, about_account_id, destination_id, kind, data)
    select n.id, t.account_id, n.about_account_id, n.destination_id, n.kind, n.data
    from unnest(:note_id, :note_account_id, :note_destination_id, :note_kind, :note_data)
            as n (id, about_account_id, destination_id, kind, data)
    join me on true
    join told_accounts t on t.account_id = n.about_account_id or t.whole_installation
    order by n.id, t.account_id
    on conflict do nothing
)
insert into holds (destination_id, since, reason, until, detail, step, ended_at, changed_at)
select h.destination_id, h.since, h.reason, h.until, h.detail, h.step, h.ended_at, :now
from unnest(:hold_destination_id, :hold_since, :hold_reason, :hold_until, :hold_detail, :hold_step, :hold_ended_at)
        as h (destination_id, since, reason, until, detail, step, ended_at),
     me
where (select true from destinations where destinations.id = h.destination_id limit 1)
order by 1, 2, 3
on conflict (destination_id, since, reason) do update
set until = excluded.until, detail = excluded.detail, step = excluded.step, ended_at = excluded.ended_at,
    changed_at = excluded.changed_at
