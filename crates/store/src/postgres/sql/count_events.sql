select account_id, count(*) as events, coalesce(sum(deliveries), 0)::bigint as deliveries
from events
where id >= :from_event_id and id < :below_event_id
group by account_id
