
, counted as (
    -- Deliveries of replays that ended. A row for each node: nodes that settle deliveries of one replay do not wait for each
    -- other.
    insert into replay_counts as n (replay_id, node_id, delivered, dead_letter)
    select c.replay_id, :settling_node_id, count(*) filter (where c.ending = 'delivered'),
           count(*) filter (where c.ending = 'dead_letter')
    from (
        select c.replay_id, c.ending, c.delivery_id in (select delivery_id from gone) as gone
        from c
        where c.replay_id is not null
          and c.ending in ('delivered', 'dead_letter')
        offset 0                                                -- computed once a row
    ) c
    where c.gone
    group by c.replay_id
    order by c.replay_id
    on conflict (replay_id, node_id)
        do update set delivered = n.delivered + excluded.delivered, dead_letter = n.dead_letter + excluded.dead_letter
)
