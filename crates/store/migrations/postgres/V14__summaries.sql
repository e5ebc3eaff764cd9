-- Who sums up a minute has the block ranges of the days summarised before. Left to the server, each range is a request
-- of its own: it keeps 256 of them for a minute, and writes of each that it has no room for to its log, which was many a
-- second under load.
create index attempts_by_time on attempts using brin (attempt_id) with (pages_per_range = 16);
drop index attempts_by_start;
