-- Those of which no attempt is left.
with going as materialized (
    select d.id
    from destinations d
    where d.account_id = :account_id
    order by d.account_id, d.id desc                            -- as the index has them
    limit :destinations
),
gates as (
    delete from gates using going where gates.destination_id = going.id returning 1
),
lanes as (
    delete from lanes using going where lanes.destination_id = going.id returning 1
),
sequences as (
    delete from sequences using going where sequences.destination_id = going.id returning 1
),
gone as (
    delete from destinations using going where destinations.id = going.id returning 1
)
select (select count(*) from gates) + (select count(*) from lanes) + (select count(*) from sequences)
       + (select count(*) from gone) as gone
