-- Whether a filter wants a delivery that was looked at. A filter is a list, as JSON, or null: none. Ids are in
-- hexadecimal; a type is [a text for glob, the full stops in it, whether segments may follow]: with as many full stops in
-- the text as in the type, a star can be no more than a segment.
case
  when looked_at.account_id <> :account_id then 0
  when :statuses is not null and (
    case
      when looked_at.ending is not null then looked_at.ending in (select value from json_each(:statuses))
      -- Whether it is being tried just now is its owner's knowledge: here it waits.
      else 'delivering' in (select value from json_each(:statuses))
        or iif(looked_at.attempts = 0, 'queued', 'retry_scheduled') in (select value from json_each(:statuses))
    end) is not true then 0
  when :reasons is not null
    and (looked_at.reason in (select value from json_each(:reasons))) is not true then 0
  when :event_ids is not null
    and (looked_at.event_id in (select unhex(value) from json_each(:event_ids))) is not true then 0
  when :destination_ids is not null
    and (looked_at.destination_id in (select unhex(value) from json_each(:destination_ids))) is not true then 0
  when :route_ids is not null
    and (looked_at.route_id in (select unhex(value) from json_each(:route_ids))) is not true then 0
  when :source_ids is not null
    and (looked_at.source_id in (select unhex(value) from json_each(:source_ids))) is not true then 0
  when :http_statuses is not null
    and (looked_at.last_http_status in (select value from json_each(:http_statuses))) is not true then 0
  when :replay_ids is not null
    and (looked_at.replay_id in (select unhex(value) from json_each(:replay_ids))) is not true then 0
  when looked_at.ended_at > :ended_by then 0
  when looked_at.replay_id = :not_of_replay then 0
  when :resolved is not null
    and :resolved <> exists (select 1 from settled_dead_letters s where s.delivery_id = looked_at.delivery_id) then 0
  when :types is not null and not exists (
    select 1
    from (select length(looked_at.event_type) - length(replace(looked_at.event_type, '.', '')) as stops)
    join json_each(:types) t
    where stops = t.value ->> 1 and looked_at.event_type glob (t.value ->> 0)
      or t.value ->> 2 and stops >= t.value ->> 1
        and looked_at.event_type glob (t.value ->> 0) || replace(hex(zeroblob(stops - (t.value ->> 1))), '00', '.*')
    ) then 0
  else 1
end
