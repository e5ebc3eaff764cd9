select events.id, events.deliveries
from events
where events.id = any(:event_ids)
