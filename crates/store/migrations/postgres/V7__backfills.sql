-- Backfills are replays that are given events. They have words of their own for running and paused: a node of the version
-- before takes a replay that runs for one of deliveries, finds none and ends it; a word that it does not know it leaves alone.
alter table replays add column cursor_destination uuid;    -- of a backfill, whose cursor is an event: the last one done in it

alter table replays drop constraint replays_status_check;
alter table replays add constraint replays_status_check
    check (status in ('running', 'paused', 'backfilling', 'backfill_paused', 'completed', 'cancelled'));
alter table replays drop constraint replays_check2;
alter table replays add constraint replays_check2
    check ((finished_at is null) = (status in ('running', 'paused', 'backfilling', 'backfill_paused')));

create index replays_open on replays (id) where status in ('running', 'backfilling');
