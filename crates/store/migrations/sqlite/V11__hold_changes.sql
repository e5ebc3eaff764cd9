-- When a line of a destination's history was last written: whoever follows what happens looks for the newest. Never the
-- same twice, and always growing. Holds begin and end seldom; no delivery pays for this.
alter table holds add column changed_at integer not null default 0;
create index holds_changed on holds (changed_at);
