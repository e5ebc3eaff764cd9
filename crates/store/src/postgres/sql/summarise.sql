-- Block ranges that are not summarised are read whole by every statement that looks for a time.
do $$
declare
    day regclass;
begin
    set local lock_timeout = 'PATIENCE';
    for day in select inhrelid from pg_inherits where inhparent = to_regclass('attempts_by_time') loop
        begin
            perform brin_summarize_new_values(day);
        exception
            -- It is being vacuumed, which does the same; it has gone; the tables are another role's.
            when others then null;
        end;
    end loop;
end $$
