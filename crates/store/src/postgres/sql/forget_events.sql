-- With what they were tagged with, which is to go too.
with gone as (
    delete from events where id = any(:event_ids) returning tags
)
select count(*) as gone, array_agg(gone.tags) filter (where gone.tags is not null) as tags
from gone
