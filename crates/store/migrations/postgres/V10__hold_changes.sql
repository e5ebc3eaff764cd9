-- When a line of a destination's history was last written: whoever follows what happens looks for the newest. Holds
-- begin and end seldom; no delivery pays for this.
alter table holds add column changed_at bigint not null default 0;
create index holds_changed on holds (changed_at, destination_id);
