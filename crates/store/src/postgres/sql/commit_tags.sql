-- Goes on after commit.sql where an event has tags: a statement of its own, so that a batch without any starts nothing for
-- them.
, tagged as (
    insert into event_tags (account_id, tag, event_id)
    select written.account_id, t.tag, written.id
    from unnest(:tag, :tag_event_id) as t (tag, event_id)
    join written on written.id = t.event_id
)
