-- A range of 16 pages was full so often that the server's list of ranges to sum up (256 of them, looked at once a minute)
-- overflowed under load: each further one was a line in the server's log, and was read in full until the next vacuum.
drop index attempts_by_start;
create index attempts_by_start on attempts using brin (attempt_id) with (pages_per_range = 128, autosummarize = on);
