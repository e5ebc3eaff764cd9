-- Backfills are replays that are given events: the cursor is an event then.
-- The last destination that is done in it; null: the event is done.
alter table replays add column cursor_destination blob;
