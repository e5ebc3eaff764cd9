-- All of these tags of all of these events: whichever had which. By the ids only the days they belong to are looked at.
delete from event_tags
where account_id = :account_id
  and tag = any(:tags)
  and event_id = any(:event_ids)
